"""Another version of iriai takes a state directory over: what runs there goes on."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from iriai import __file__ as program_file
from iriai import __version__
from iriai.launcher.contract.messages import LAUNCHER_VERSION
from tests.endtoend.installation import IRIAI, Installation
from tests.support.trusted_place import trusted_place
from tests.support.waiting import until


@pytest.fixture
def next_version() -> Iterator[dict[str, str]]:
    """The environment in which commands are those of the version to come."""
    with trusted_place() as place:
        program = place / "iriai"
        shutil.copytree(Path(program_file).parent, program)
        replace(program / "__init__.py", f'"{__version__}"', '"99.0"')
        yield {"PYTHONPATH": str(place)}


def replace(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert text.count(old) == 1
    file.write_text(text.replace(old, new))


def version_of(machine: Installation) -> str:
    with machine.client() as client:
        return client.status().version


def test_running_tasks_survive_the_upgrade_of_their_daemon(
    iriai: Installation, next_version: dict[str, str]
):
    iriai.start()
    go = iriai.work / "go"
    waits = f"until [ -e {go} ]; do sleep 0.05; done; echo done"
    with iriai.client() as client:
        job = client.submit(iriai.draft("sh", "-c", waits, output="out")).id
        until(lambda: client.jobs()[0].state == "running", "the task")
    launcher = iriai.pid("launcher")
    iriai.leave_launcher()
    iriai.start(next_version)
    assert version_of(iriai) == "99.0"
    assert iriai.pid("launcher") == launcher
    go.touch()
    with iriai.client() as client:
        [outcome] = client.wait([job])
        assert (outcome.cause, outcome.exit_code) == ("completed", 0)
        [attempt] = client.show(job).attempts
    assert attempt.cause == "completed"
    assert (iriai.work / "out").read_text() == "done\n"


def test_a_launcher_of_the_version_before_is_named_with_what_to_do(
    iriai: Installation, next_version: dict[str, str]
):
    iriai.start()
    contract = Path(next_version["PYTHONPATH"], "iriai", "launcher", "contract", "messages.py")
    later = LAUNCHER_VERSION + 1
    replace(contract, f"LAUNCHER_VERSION = {LAUNCHER_VERSION}", f"LAUNCHER_VERSION = {later}")
    with iriai.client() as client:
        client.submit(iriai.draft("sleep", "600"))
        until(lambda: client.jobs()[0].state == "running", "the task")
    iriai.leave_launcher()
    iriai.begin(next_version)
    words = (
        f"the launcher uses version {LAUNCHER_VERSION} of the protocol with its daemon, this "
        f"daemon version {later}"
    )
    until(lambda: iriai.answers() and words in iriai.call("status").stdout, "the trouble")
    assert iriai.pid("launcher") is not None
    iriai.leave_launcher()
    command = [IRIAI, "down", "--kill", "--state", str(iriai.state)]
    assert (
        "every task was ended"
        in subprocess.run(command, capture_output=True, text=True, check=True).stdout
    )
    iriai.start(next_version)
