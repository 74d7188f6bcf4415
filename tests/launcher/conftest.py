"""Launchers for tests: one that many tests share, or one for a single test."""

import os
import pwd
from collections.abc import Callable, Iterator

import pytest

from tests.launcher.harness import Lab, Machine, Variant

IS_ROOT = os.geteuid() == 0
USER = "daemon" if IS_ROOT else pwd.getpwuid(os.geteuid()).pw_name

# Each way in which tasks are started and kept together; all pass the same tests. What an ordinary
# user may do is tested by root too, by a launcher that has dropped its privileges.
PRIVILEGED = [
    Variant("control-groups"),
    Variant("version-2-groups", isolation="v2"),
    Variant("process-trees", isolation="none"),
    Variant("program-in-python", helper="python"),
]
ORDINARY = [Variant("ordinary-user", is_privileged=not IS_ROOT)]
if not IS_ROOT:
    ORDINARY.append(Variant("ordinary-user-python", helper="python"))
VARIANTS = PRIVILEGED + ORDINARY if IS_ROOT else ORDINARY
FREEZING = [Variant("version-1-groups", isolation="v1"), *PRIVILEGED[:3], *ORDINARY[:1]]
if not IS_ROOT:
    FREEZING = ORDINARY[:1]
"""Each way in which tasks are frozen; `control-groups` takes the best that this machine has."""


def machines(variants: list[Variant], *, is_shared: bool) -> object:
    """A fixture: a machine of each variant.

    One that is shared has a launcher which all tests of a file use one after the other; others are
    for a single test, and have none yet.
    """

    def machine(request: pytest.FixtureRequest) -> Iterator[Machine]:
        made = Machine(request.param, USER)
        yield made.start() if is_shared else made
        made.close()

    scope = "module" if is_shared else "function"
    return pytest.fixture(scope=scope, params=variants, ids=str)(machine)


def lab_of(machine: Machine) -> Iterator[Lab]:
    """A fresh connection to a launcher that other tests have used before."""
    lab = Lab(machine)
    yield lab
    lab.close()


shared_machine = machines(VARIANTS, is_shared=True)
machine = machines(VARIANTS, is_shared=False)
freezing_machine = machines(FREEZING, is_shared=True)
new_freezing_machine = machines(FREEZING, is_shared=False)


@pytest.fixture
def lab(shared_machine: Machine) -> Iterator[Lab]:
    yield from lab_of(shared_machine)


@pytest.fixture
def freezing_lab(freezing_machine: Machine) -> Iterator[Lab]:
    yield from lab_of(freezing_machine)


@pytest.fixture
def plain_machine() -> Iterator[Machine]:
    """A machine of its own for a test, in the usual variant only."""
    machine = Machine(VARIANTS[0], USER)
    yield machine
    machine.close()


@pytest.fixture
def new_machine() -> Iterator[Callable[[Variant], Machine]]:
    """Machines of any variant."""
    made: list[Machine] = []

    def make(variant: Variant) -> Machine:
        made.append(Machine(variant, USER))
        return made[-1]

    yield make
    for each in made:
        each.close()
