"""Finds the terminals that tasks have opened: a process of theirs, or the launcher, has the master.

All processes of tasks are below the launcher, which takes in their orphans. Only those of a
terminal's user, and of root, are looked at: whoever has many processes and files delays the
look at their own terminals alone.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress

from iriai.system.procfs import all_processes, user_of

LOOK_MAX_S = 0.25
"""How long the look at the processes of one user may take."""
WORK_S, REST_S = 0.01, 0.001
"""At real-time priority it rests after so much work: others need the processor too."""
_INDEX = b"tty-index:"


class _TimeOver(Exception):
    """The look took too long."""


class _Pace:
    """Rests now and then."""

    def __init__(self) -> None:
        self.begun_s = self._rested_s = time.monotonic()

    def step(self) -> None:
        now_s = time.monotonic()
        if now_s - self._rested_s >= WORK_S:
            time.sleep(REST_S)
            self._rested_s = time.monotonic()


class OwnTerminals:
    """Of one directory of terminals, what the launcher and its tasks have the masters of."""

    def __init__(self, folder: str, launcher: int) -> None:
        """`folder` is like /dev/pts; its masters lie in it, or beside it."""
        self._folder = folder
        self._launcher = launcher

    def held_by(self, uid: int) -> tuple[dict[int, None], bool]:
        """Return the numbers of terminals that processes of this user hold, or of root.

        With it, whether all could be looked at in time.
        """
        found, pace = dict[int, None](), _Pace()
        with suppress(OSError):
            places = {os.stat(each).st_dev for each in (self._folder, f"{self._folder}/..")}
            try:
                for pid in self._processes(pace, uid):
                    found |= dict.fromkeys(_masters(pid, places, pace))
            except _TimeOver:
                return found, False
        return found, True

    def _processes(self, pace: _Pace, uid: int) -> Iterator[int]:
        yield self._launcher
        children: dict[int, list[int]] = {}
        for process in all_processes():
            children.setdefault(process.parent, []).append(process.pid)
            pace.step()
        below, own = [self._launcher], os.getpid()
        pace.begun_s = time.monotonic()  # how many there are of others is not this user's
        for parent in below:  # grows while it is walked
            for pid in children.get(parent, ()):
                if pid == own:
                    continue
                below.append(pid)
                pace.step()
                if user_of(pid) in (uid, 0):
                    yield pid


def _masters(pid: int, places: set[int], pace: _Pace) -> Iterator[int]:
    """Yield the numbers of the terminals of these places whose masters a process has open."""
    with suppress(OSError), os.scandir(f"/proc/{pid}/fd") as entries:
        for entry in entries:
            pace.step()
            if time.monotonic() - pace.begun_s > LOOK_MAX_S:
                raise _TimeOver
            with suppress(OSError):
                if not os.readlink(entry.path).endswith("ptmx"):
                    continue
                number = _number(f"/proc/{pid}/fdinfo/{entry.name}")
                # A master; so this stat asks no file system of a user.
                if number is not None and os.stat(entry.path).st_dev in places:
                    yield number


def _number(path: str) -> int | None:
    """Return which terminal a descriptor is the master of; None: it is another file."""
    with open(path, "rb") as file:
        for line in file:
            if line.startswith(_INDEX):
                return int(line[len(_INDEX) :])
    return None
