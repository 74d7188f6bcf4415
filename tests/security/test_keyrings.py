"""T2: keys are handed down as descriptors are: those of root's session are in no task."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from iriai.launcher.spawn.iriai_exec import KEYCTL, KEYCTL_ELSEWHERE
from iriai.launcher.spawn.spawn import find_helper
from tests.endtoend.installation import PYTHON, Installation
from tests.support.people import People

NUMBER = KEYCTL.get(os.uname().machine, KEYCTL_ELSEWHERE)
KEYS = f"""
import ctypes, os, sys
SESSION, JOIN, NUMBER_OF, LINK, SEARCH, READ = -3, 1, 0, 8, 10, 11
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
def keyctl(*values):
    return libc.syscall({NUMBER}, *values)
"""
WITH_A_KEY = (
    KEYS
    + f"""
assert keyctl(JOIN, None) > 0, os.strerror(ctypes.get_errno())
assert libc.syscall({NUMBER - 2}, b"user", b"secret", b"of-root", 7, SESSION) > 0
os.execvp(sys.argv[1], sys.argv[1:])
"""
)
"""A process whose session has a key, and so has all that it starts."""
WHAT_IS_THERE = (
    KEYS
    + """
found = keyctl(SEARCH, SESSION, b"user", b"secret", 0)
content = ctypes.create_string_buffer(100)
if found > 0:
    keyctl(READ, found, content, 100)
print(os.getuid(), found > 0, content.value, keyctl(NUMBER_OF, SESSION, 0))
"""
)
"""Prints whether the key is there, what it says, and which keyring the session has."""


@pytest.fixture(scope="module")
def machine(people: People) -> Iterator[Installation]:
    """A machine that was started from a session of root's with a key."""
    installation = Installation(people.ann)
    installation.prefix = (PYTHON, "-c", WITH_A_KEY)
    try:
        yield installation.start()
    finally:
        installation.stop()


def seen(machine: Installation, name: str) -> list[str]:
    """What a task finds of keys."""
    with machine.client() as client:
        job = client.submit(machine.draft(PYTHON, "-c", WHAT_IS_THERE, output=name)).id
        client.wait([job])
    return (machine.work / name).read_text().split()


@pytest.mark.root
def test_a_task_has_no_key_of_roots_session(machine: Installation):
    """T2: nor a keyring in which it would meet tasks of others."""
    first, second = seen(machine, "first"), seen(machine, "second")
    assert first[1:3] == ["False", "b''"]
    assert int(first[3]) > 0
    assert first[3] != second[3]


@pytest.mark.root
@pytest.mark.parametrize("kind", ["c", "python"])
def test_the_program_before_the_task_leaves_the_session(kind: str, people: People, tmp_path: Path):
    """T2: in either form."""
    user = people.ann
    told = tmp_path / "told"
    told.touch()
    os.chown(told, user.uid, user.gid)
    with told.open("a") as output:
        options = [f"u={user.uid}:{user.gid}:", "k=", "--", PYTHON, "-c", WHAT_IS_THERE]
        command = [PYTHON, "-c", WITH_A_KEY, *find_helper(kind), *options]
        done = subprocess.run(command, env={}, stdout=output, check=False)
    assert done.returncode == 0
    assert told.read_text().split()[:3] == [str(user.uid), "False", "b''"]
