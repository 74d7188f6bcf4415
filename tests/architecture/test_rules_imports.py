"""The import rules find what they are for, and nothing else."""

from __future__ import annotations

import pytest

from tests.architecture import rules_imports
from tests.architecture.source import module_from_text


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("iriai.model.job", "import iriai.policy"),
        ("iriai.policy.matching.match", "from iriai.protocol import messages"),
        ("iriai.node.core", "from iriai.home.core import Home"),
        ("iriai.node.core", "from ..home.core import Home"),
        ("iriai.node", "from . import core\nfrom ..broker import core as other"),
        ("iriai.machine.deliver", "from iriai.wire import codec"),
        ("iriai.wire.codec", "from iriai.protocol.membership.membership import View"),
        ("iriai.wire.codec", "import iriai.protocol"),
        ("iriai.launcher.spawn.spawn", "from iriai.protocol import messages"),
        ("iriai.daemon.main", "import iriai.sim.world.network"),
        ("iriai.daemon.main", "from iriai import cli"),
        ("iriai.sim.world.network", "from iriai.daemon import links"),
        ("iriai.cli.jobs.jobs", "def jobs():\n    from iriai.daemon import main"),
        ("iriai.cli.machine.up", "from iriai.state import role"),
        ("iriai.home.core", "if TYPE_CHECKING:\n    from iriai.store import writer"),
        ("iriai.extras.core", ""),
        ("iriai", "from iriai.daemon import main"),
    ],
)
def test_an_import_against_the_table_is_found(name: str, text: str):
    assert rules_imports.forbidden_imports(
        [module_from_text(name, text, is_package="." not in name)]
    )


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("iriai.model.job", "from iriai.model.ids import JobId\nimport enum"),
        ("iriai.model.job", "from .ids import JobId"),
        ("iriai.machine.deliver", "from iriai.node.core import Node\nfrom iriai.home import core"),
        (
            "iriai.wire.codec",
            "from iriai.protocol import messages\nimport iriai.protocol.messages.scheduling",
        ),
        ("iriai.daemon.main", "from iriai.launcher.contract.messages import Launch"),
        ("iriai.cli.machine.up", "def up():\n    from iriai.state import role"),
        ("iriai.cli.simulate.simulate", "def simulate():\n    from iriai.sim import network"),
        ("iriai.cli.main", "from iriai import __version__"),
        ("iriai.__main__", "from iriai.cli.main import main"),
    ],
)
def test_an_import_within_the_table_is_let_through(name: str, text: str):
    assert rules_imports.forbidden_imports([module_from_text(name, text)]) == []


def test_a_library_outside_its_packages_is_found():
    heavy = module_from_text("iriai.launcher.main", "def start():\n    import cryptography.x509")
    (violation,) = rules_imports.misplaced_libraries([heavy])
    assert str(violation) == "iriai.launcher.main:2: cryptography.x509 belongs to identity"


def test_a_library_in_its_package_or_for_types_alone_is_let_through():
    owner = module_from_text("iriai.identity.token", "import cryptography")
    types = module_from_text("iriai.daemon.main", "if TYPE_CHECKING:\n    import cryptography")
    assert rules_imports.misplaced_libraries([owner, types]) == []


def test_a_library_that_is_not_declared_is_found():
    command = module_from_text("iriai.cli.main", "import typer\nimport click.core\nimport os")
    (violation,) = rules_imports.undeclared_libraries([command], {"typer"})
    assert str(violation) == "iriai.cli.main:2: click.core is not among the dependencies"
