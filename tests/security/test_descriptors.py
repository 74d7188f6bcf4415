"""T2: what the shell of `iriai up` had open is open in no process of ours, and in no task."""

import fcntl
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from iriai.launcher.spawn.spawn import find_helper
from tests.endtoend.installation import PYTHON, Installation
from tests.support.people import People

SECRET = "root-has-this-open"
WITH_FILES_OPEN = 'exec 5<>"$0" 7<>"$0" 9<"$0"; exec "$@"'
"""A shell that has the file open, for reading and for writing, in all that it starts."""
OPEN_HERE = """
import os
for name in sorted(os.listdir("/proc/self/fd"), key=int):
    try:
        print(name, os.readlink("/proc/self/fd/" + name))
    except FileNotFoundError:
        pass  # what listed them
"""


@pytest.fixture(scope="module")
def machine(people: People) -> Iterator[Installation]:
    """A machine that was started by a shell that has a file of root's open."""
    installation = Installation(people.ann)
    secret = installation.directory / SECRET
    secret.touch(0o600)
    installation.prefix = ("sh", "-c", WITH_FILES_OPEN, str(secret))
    try:
        yield installation.start()
    finally:
        installation.stop()


def open_in(pid: int) -> list[str]:
    """Where the descriptors of a process lead."""
    directory = Path(f"/proc/{pid}/fd")
    return [os.readlink(each) for each in directory.iterdir() if each.is_symlink()]


@pytest.mark.root
def test_a_task_has_its_three_descriptors_and_no_more(machine: Installation):
    """T2: descriptors of root's shell are not in a user's task."""
    with machine.client() as client:
        job = client.submit(machine.draft(PYTHON, "-c", OPEN_HERE, output="open")).id
        client.wait([job])
    lines = (machine.work / "open").read_text().splitlines()
    assert [line.split()[0] for line in lines] == ["0", "1", "2"], lines
    assert SECRET not in "".join(lines)


@pytest.mark.root
def test_no_process_of_ours_keeps_what_it_was_started_with(machine: Installation):
    """T2: nor are they in supervisor, daemon and launcher."""
    for part in ("supervisor", "daemon", "launcher"):
        pid = machine.pid(part)
        assert pid is not None
        assert not [each for each in open_in(pid) if SECRET in each], part


@pytest.mark.parametrize("kind", ["c", "python"])
def test_the_program_before_the_task_closes_what_it_was_given(kind: str, tmp_path: Path):
    """T2: whatever the launcher might have open one day."""
    with (tmp_path / "secret").open("w") as secret:
        high = fcntl.fcntl(secret.fileno(), fcntl.F_DUPFD_CLOEXEC, 200)
        try:
            done = subprocess.run(
                [*find_helper(kind), f"o={tmp_path}/open", "--", PYTHON, "-c", OPEN_HERE],
                env={},
                pass_fds=(secret.fileno(), high),
                check=False,
            )
        finally:
            os.close(high)
    assert done.returncode == 0
    lines = (tmp_path / "open").read_text().splitlines()
    assert [line.split()[0] for line in lines] == ["0", "1", "2"], lines
