"""T10c: a task has its user's rights and gets no others, whatever program it calls."""

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from iriai.client import Client
from iriai.wire.reports import Doctor
from tests.endtoend.installation import Installation
from tests.support.people import People, TestPerson

pytestmark = pytest.mark.root

ALL_RIGHTS = 0
"""What a program that is setuid for root says its user id is, where the bit has an effect."""


def machine_with(text: str, person: TestPerson) -> Installation:
    """A machine of root's on which `id` is installed setuid, with that configuration."""
    installation = Installation(person)
    installation.configure(f"[machine]\n{text}\n")
    program = setuid_program(installation)
    shutil.copy("/usr/bin/id", program)
    program.chmod(0o4755)
    return installation.start()


def setuid_program(installation: Installation) -> Path:
    return installation.directory / "id"


@pytest.fixture(scope="module")
def machine(people: People) -> Iterator[Installation]:
    installation = machine_with("", people.ann)
    try:
        yield installation
    finally:
        installation.stop()


def output_of(machine: Installation, *command: str) -> str:
    """What a task of this command prints."""
    output = machine.work / "output"
    output.unlink(missing_ok=True)
    with machine.client() as client:
        end = client.wait([client.submit(machine.draft(*command, output="output")).id])[0]
    assert end.cause == "completed", end
    return output.read_text()


def findings(machine: Installation, subject: str) -> list[str]:
    with Client.connect(machine.state) as root:
        return [each.message for each in root.ask(Doctor()).findings if each.subject == subject]


def test_a_setuid_program_gains_nothing(machine: Installation, people: People):
    """T10c: a program that is setuid for root runs with the user's own rights."""
    program = setuid_program(machine)
    assert program.stat().st_mode & stat.S_ISUID
    assert output_of(machine, str(program), "-u") == f"{people.ann.uid}\n"


def test_no_capability_is_left_or_to_be_had(machine: Installation):
    """T10c: every set of capabilities is empty, the bounding set too, and stays so."""
    told = output_of(machine, "grep", "-E", "^(Cap|NoNewPrivs)", "/proc/self/status")
    sets = dict(line.split(":\t") for line in told.splitlines())
    assert sets.pop("NoNewPrivs") == "1"
    assert set(sets) == {"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"}
    assert {int(value, 16) for value in sets.values()} == {0}, sets


def test_doctor_names_the_programs_that_do_not_work(machine: Installation):
    """T10c: who installed one of them for their jobs is told."""
    installed = [name for name in ("su", "mount") if is_setuid(name)]
    assert installed
    (message,) = findings(machine, "privileges")
    assert all(name in message for name in installed)


def is_setuid(name: str) -> bool:
    path = shutil.which(name)
    return bool(path and os.stat(path).st_mode & stat.S_ISUID)


def test_a_machine_may_let_them_work(people: People):
    """T10c: the machine's owner can have setuid programs work, and doctor says so."""
    machine = machine_with("no_new_privileges = false", people.ann)
    try:
        assert output_of(machine, str(setuid_program(machine)), "-u") == f"{ALL_RIGHTS}\n"
        assert "tasks can gain rights" in findings(machine, "privileges")[0]
    finally:
        machine.stop()
