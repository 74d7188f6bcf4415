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


@pytest.fixture(scope="module", params=VARIANTS, ids=str)
def shared_machine(request: pytest.FixtureRequest) -> Iterator[Machine]:
    machine = Machine(request.param, USER)
    yield machine.start()
    machine.close()


@pytest.fixture
def lab(shared_machine: Machine) -> Iterator[Lab]:
    """A fresh connection to a launcher that other tests have used before."""
    lab = Lab(shared_machine)
    yield lab
    lab.close()


@pytest.fixture(params=VARIANTS, ids=str)
def machine(request: pytest.FixtureRequest) -> Iterator[Machine]:
    """A machine of its own for a test, without a launcher yet, in every variant."""
    machine = Machine(request.param, USER)
    yield machine
    machine.close()


@pytest.fixture(scope="module", params=FREEZING, ids=str)
def freezing_machine(request: pytest.FixtureRequest) -> Iterator[Machine]:
    machine = Machine(request.param, USER)
    yield machine.start()
    machine.close()


@pytest.fixture
def freezing_lab(freezing_machine: Machine) -> Iterator[Lab]:
    """A fresh connection to a launcher of each way to freeze, that other tests have used before."""
    lab = Lab(freezing_machine)
    yield lab
    lab.close()


@pytest.fixture(params=FREEZING, ids=str)
def new_freezing_machine(request: pytest.FixtureRequest) -> Iterator[Machine]:
    """A machine of its own for a test, of each way to freeze, without a launcher yet."""
    machine = Machine(request.param, USER)
    yield machine
    machine.close()


@pytest.fixture
def plain_machine() -> Iterator[Machine]:
    """The same, in the usual variant only."""
    machine = Machine(VARIANTS[0], USER)
    yield machine
    machine.close()


@pytest.fixture
def new_machine() -> Iterator[Callable[[Variant], Machine]]:
    """Machines of any variant."""
    machines: list[Machine] = []

    def make(variant: Variant) -> Machine:
        machines.append(Machine(variant, USER))
        return machines[-1]

    yield make
    for each in machines:
        each.close()
