"""The import rules find what they are for, and nothing else."""

from __future__ import annotations

import pytest

from tests.architecture import rules_imports
from tests.architecture.source import module_from_text


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("iriai.model.job", "import iriai.policy"),
        ("iriai.policy.match", "from iriai.protocol import messages"),
        ("iriai.node.core", "from iriai.home.core import Home"),
        ("iriai.node.core", "from ..home.core import Home"),
        ("iriai.node", "from . import core\nfrom ..broker import core as other"),
        ("iriai.machine.deliver", "from iriai.wire import codec"),
        ("iriai.wire.codec", "from iriai.protocol.membership import View"),
        ("iriai.wire.codec", "import iriai.protocol"),
        ("iriai.launcher.spawn", "from iriai.protocol import messages"),
        ("iriai.daemon.main", "import iriai.sim.network"),
        ("iriai.daemon.main", "from iriai import cli"),
        ("iriai.sim.network", "from iriai.daemon import links"),
        ("iriai.cli.jobs", "def jobs():\n    from iriai.daemon import main"),
        ("iriai.cli.up", "from iriai.daemon import main"),
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
        ("iriai.wire.codec", "from iriai.protocol import messages\nimport iriai.protocol.messages"),
        ("iriai.daemon.main", "from iriai.launcher.messages import Launch"),
        ("iriai.cli.up", "def up():\n    from iriai.daemon import main"),
        ("iriai.cli.simulate", "def simulate():\n    from iriai.sim import network"),
        ("iriai.cli.main", "from iriai import __version__"),
        ("iriai.__main__", "from iriai.cli.main import main"),
    ],
)
def test_an_import_within_the_table_is_let_through(name: str, text: str):
    assert rules_imports.forbidden_imports([module_from_text(name, text)]) == []


def test_a_library_outside_its_packages_is_found():
    heavy = module_from_text("iriai.launcher.main", "def start():\n    import sqlalchemy.engine")
    (violation,) = rules_imports.misplaced_libraries([heavy])
    assert str(violation) == "iriai.launcher.main:2: sqlalchemy.engine belongs to store"


def test_a_library_in_its_package_or_for_types_alone_is_let_through():
    owner = module_from_text("iriai.store.writer", "import sqlalchemy")
    types = module_from_text("iriai.daemon.main", "if TYPE_CHECKING:\n    import sqlalchemy")
    assert rules_imports.misplaced_libraries([owner, types]) == []


def test_a_library_that_is_not_declared_is_found():
    command = module_from_text("iriai.cli.main", "import typer\nimport click.core\nimport os")
    (violation,) = rules_imports.undeclared_libraries([command], {"typer"})
    assert str(violation) == "iriai.cli.main:2: click.core is not among the dependencies"


def test_modules_in_a_circle_are_found():
    first = module_from_text("iriai.node.a", "from iriai.node.b import B")
    second = module_from_text("iriai.node.b", "import iriai.node.c")
    third = module_from_text("iriai.node.c", "from iriai.node import a")
    (violation,) = rules_imports.circular_modules([first, second, third])
    assert violation.what == (
        "circular import: iriai.node.a -> iriai.node.b -> iriai.node.c -> iriai.node.a"
    )


@pytest.mark.parametrize(
    "back",
    [
        "if TYPE_CHECKING:\n    from iriai.node.a import A",
        "def f():\n    from iriai.node.a import A",
    ],
    ids=["for types", "in a function"],
)
def test_a_circle_that_does_not_hinder_loading_counts_as_well(back: str):
    first = module_from_text("iriai.node.a", "from iriai.node.b import B")
    (violation,) = rules_imports.circular_modules([first, module_from_text("iriai.node.b", back)])
    assert violation.what == "circular import: iriai.node.a -> iriai.node.b -> iriai.node.a"


def test_packages_in_a_circle_are_found_even_inside_functions():
    first = module_from_text("iriai.node.a", "def f():\n    import iriai.home.b")
    second = module_from_text("iriai.home.b", "from iriai.policy.c import C")
    third = module_from_text("iriai.policy.c", "from iriai.node.z import Z")
    (violation,) = rules_imports.circular_packages([first, second, third])
    assert violation.what == "circular import: node -> home -> policy -> node"


def test_packages_above_each_other_are_no_circle():
    first = module_from_text("iriai.node.a", "import iriai.model.b\nimport iriai.policy.c")
    second = module_from_text("iriai.policy.c", "import iriai.model.b")
    third = module_from_text("iriai.model.b", "import enum")
    assert rules_imports.circular_packages([first, second, third]) == []
