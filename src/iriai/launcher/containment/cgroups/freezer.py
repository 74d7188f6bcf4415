"""Freezers of both versions: which of them works here, and that of one pooled group.

Tasks are suspended seldom, and start often. In version 2 a task's group can be frozen as it is,
where the launcher makes one anyway. Elsewhere (version 1, or version 2 mounted beside it) a group
for the freezer alone is made when a task is first suspended, and its processes are moved there:
a task that never is costs nothing (ADR 0112).
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable
from contextlib import suppress

from iriai.launcher.containment.cgroups.controllers import (
    field_in,
    make_afresh,
    read_pids,
    write_file,
)
from iriai.launcher.containment.cgroups.hierarchy import ControllerMount
from iriai.launcher.containment.container import FreezerFile

TRIAL_S = 5.0
"""How long a freezer may take on trial, on a machine that is busy."""
_POLL_S = 0.001
_FROZEN = b"FROZEN"
_WORDS = {
    1: (("freezer.state", "FROZEN"), ("freezer.state", "THAWED")),
    2: (("cgroup.freeze", "1"), ("cgroup.freeze", "0")),
}
"""By version: the file and the word that freeze a group, and those that thaw it."""


class Freezer:
    """The freezer of one group."""

    def __init__(self, directory: str, version: int, *, is_apart: bool) -> None:
        """`is_apart`: the group is made for the freezer, and processes are moved there."""
        self._directory = directory
        self._version = version
        self._words = _WORDS[version]
        self.is_apart = is_apart
        self._is_made = not is_apart
        self.is_asked = False
        """Whether the group was frozen, and not thawed since."""
        self._is_lent = False
        """Whether somebody else freezes and thaws it: how it is now is not known."""
        self._met: dict[int, None] = {}
        """Processes that were moved there, or had ended, since it was frozen."""
        file = "tasks" if version == 1 else "cgroup.procs"
        self.join = f"g={directory}/{file}"
        """The option of iriai-exec that makes a process a member."""

    def freeze(self) -> None:
        """Freeze the group; what joins it later is frozen as well. Raises OSError."""
        if not self._is_made:
            make_afresh(self._directory)
            self._is_made = True
        self.is_asked, self._is_lent = True, False
        self._write(*self._words[0])

    def thaw(self) -> None:
        """Let the group go on. Raises OSError."""
        if self.is_asked or self._is_lent:
            self._write(*self._words[1])
            self.is_asked = self._is_lent = False
            self._met.clear()

    def lend(self) -> FreezerFile:
        """Let somebody else freeze and thaw the group until the next `freeze` or `thaw`."""
        self.is_asked, self._is_lent = False, True
        self._met.clear()
        (name, frozen), (_, thawed) = self._words
        return FreezerFile(f"{self._directory}/{name}", frozen.encode(), thawed.encode())

    def let_end(self, pids: Iterable[int]) -> None:
        """Let processes end that were sent SIGKILL, which version 1 holds back while frozen."""
        if self._version == 1 and (self.is_asked or self._is_lent):
            move_processes(pids, os.path.dirname(self._directory))

    @property
    def holds_back_kills(self) -> bool:
        """Whether what was sent SIGKILL does not end before it is thawed."""
        return self._version == 1

    def reports_frozen(self) -> bool:
        """Return whether the kernel says that no member runs. Raises OSError."""
        name = "freezer.state" if self._version == 1 else "cgroup.events"
        with open(f"{self._directory}/{name}", "rb") as file:
            text = file.read()
        if self._version == 1:
            return text.startswith(_FROZEN)
        return field_in(text, b"frozen") == 1

    def take_in(self, pids: Iterable[int]) -> bool:
        """Move processes into the group; return whether none of them was new. Raises OSError.

        What has ended and was not reaped cannot be moved.
        """
        inside = dict.fromkeys(read_pids(self._directory))
        outside = [pid for pid in dict.fromkeys(pids) if pid not in inside]
        move_processes(outside, self._directory)
        fresh = dict.fromkeys(pid for pid in outside if pid not in self._met)
        self._met |= fresh
        return not fresh

    def close(self) -> None:
        """Remove the group, if it was made for this."""
        if self.is_apart and self._is_made:
            with suppress(OSError):
                os.rmdir(self._directory)

    def _write(self, name: str, word: str) -> None:
        write_file(self._directory, name, word)


def move_processes(pids: Iterable[int], directory: str) -> None:
    """Make processes members of a group, with all their threads. Raises OSError."""
    fd = os.open(f"{directory}/cgroup.procs", os.O_WRONLY | os.O_CLOEXEC)
    try:
        for pid in pids:
            with suppress(ProcessLookupError):  # it has ended
                os.write(fd, str(pid).encode())
    finally:
        os.close(fd)


def thaw_survivors(directory: str) -> None:
    """Thaw a group of either version, if it is one that can be frozen."""
    for name, text in (("freezer.state", "THAWED"), ("cgroup.freeze", "0")):
        with suppress(OSError):
            write_file(directory, name, text)


def find_freezer(
    found: dict[str, ControllerMount], name: str
) -> tuple[ControllerMount | None, str]:
    """Freeze and thaw a process in a group below a parent called `name`.

    Returns the parent group of the best freezer that does it, or None, and why no better one.
    """
    notes = []
    for controller, words in (("unified", "version 2"), ("freezer", "version 1")):
        place = found.get(controller)
        if place is None:
            notes.append(f"{words}: not mounted, or not to be used")
            continue
        parent = ControllerMount(place.version, f"{place.directory}/{name}")
        try:
            _try(parent)
        except OSError as error:
            notes.append(f"{words}: {error.strerror}")
            continue
        return parent, "; ".join(notes)
    return None, "; ".join(notes)


def _try(parent: ControllerMount) -> None:
    with suppress(FileExistsError):
        os.mkdir(parent.directory)
    # Its own name: what a launcher leaves that dies meanwhile is ended by the next one.
    directory = f"{parent.directory}/trial-{os.getpid()}"
    freezer = Freezer(directory, parent.version, is_apart=True)
    pid = os.posix_spawnp("sleep", ["sleep", "60"], {})
    try:
        freezer.freeze()
        freezer.take_in([pid])
        _wait_until_frozen(freezer)
        freezer.thaw()
    finally:
        os.kill(pid, signal.SIGKILL)
        thaw_survivors(directory)
        os.waitpid(pid, 0)
        freezer.close()


def _wait_until_frozen(freezer: Freezer) -> None:
    end_s = time.monotonic() + TRIAL_S
    while not freezer.reports_frozen():
        if time.monotonic() > end_s:
            raise TimeoutError(0, f"a process was not frozen within {TRIAL_S:g} s")
        time.sleep(_POLL_S)
