"""Users and groups of this machine that exist while the tests run; needs root."""

from __future__ import annotations

import os
import pwd
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

LOCK_WAIT_S = 60.0
"""Several test processes may make users at once; only one can at a time."""

_MARKS = iter(["", *"bcdfghij"])
"""One process may need people more than once at a time."""


class TestPerson(NamedTuple):
    """A user who exists for the tests alone."""

    __test__ = False

    name: str
    uid: int
    gid: int
    groups: tuple[str, ...]


class People(NamedTuple):
    """Two users in one group, and a third outside it."""

    ann: TestPerson
    bob: TestPerson
    eve: TestPerson
    laboratory: str


def _administer(*command: str) -> None:
    deadline_s = time.monotonic() + LOCK_WAIT_S
    while True:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return
        if "lock" not in done.stderr or time.monotonic() > deadline_s:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr}")


@contextmanager
def temporary_people() -> Iterator[People]:
    """Make the people, and remove them at the end."""
    mark = f"iriai{os.getpid()}{next(_MARKS)}"
    laboratory = f"{mark}lab"
    _administer("groupadd", laboratory)
    made = []
    try:
        for name, more in (("ann", ["-G", laboratory]), ("bob", ["-G", laboratory]), ("eve", [])):
            full = mark + name
            _administer("useradd", "--no-create-home", "--user-group", *more, full)
            made.append(full)
        ann, bob, eve = (_person(name, laboratory) for name in made)
        yield People(ann, bob, eve, laboratory)
    finally:
        for name in made:
            _administer("userdel", "--force", name)
        _administer("groupdel", laboratory)


def _person(name: str, laboratory: str) -> TestPerson:
    entry = pwd.getpwnam(name)
    groups = (name,) if name.endswith("eve") else (name, laboratory)
    return TestPerson(name, entry.pw_uid, entry.pw_gid, groups)
