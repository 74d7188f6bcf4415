"""Whether a program runs that the owner has named, such as a game."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress

from iriai.launcher.owner.polled.own_processes import is_foreign
from iriai.launcher.owner.polled.reading import read_text, word_in
from iriai.model.owner import SignKind
from iriai.model.units import printable

KERNEL_LENGTH = 15
"""The kernel keeps so many bytes of a name."""
WHOLE_EACH = 10
"""So many looks until all names are read again; others read those of new processes."""
NAMED_MAX = 3
"""In a note."""


class ProgramProbe:
    """Looks for processes of these names that are not below the launcher.

    A process may change its name when it executes a program, soon after it began; so names of new
    ones are read at two looks.
    """

    kind = SignKind.PROGRAM

    def __init__(self, names: tuple[str, ...], launcher: int, proc: str = "/proc") -> None:
        self._names: dict[bytes, list[str]] = {}
        """By what the kernel keeps of them."""
        for name in names:
            self._names.setdefault(os.fsencode(name)[:KERNEL_LENGTH], []).append(name)
        self._launcher, self._proc = launcher, proc
        self._known: dict[str, int] = {}
        """How often the names of processes were read, by their numbers."""
        self._running: dict[str, str] = {}
        """Foreign processes of that name, by the last look."""
        self._looks = 0
        self.holds = False
        self.note = f"waits for {', '.join(map(printable, names[:NAMED_MAX]))}"
        self._waits = self.note

    def look(self, now_s: float) -> Iterator[None]:
        """Look at the processes that are new, and at those that were found."""
        pids = [each for each in os.listdir(self._proc) if each.isdecimal()]
        self._looks += 1
        is_whole = self._looks % WHOLE_EACH == 0
        known, before = self._known, self._running
        self._known, running = {}, dict[str, str]()
        for pid in pids:
            reads = known.get(pid, 0)
            if reads < 2 or is_whole or pid in before:
                yield
                name = self._name_of(pid)
                if name and is_foreign(int(pid), self._launcher, self._proc):
                    running[pid] = name
            self._known[pid] = min(2, reads + 1)
        self._running = running
        self.holds = bool(running)
        names = list(dict.fromkeys(running.values()))[:NAMED_MAX]
        self.note = f"{', '.join(map(printable, names))} runs" if running else self._waits

    def _name_of(self, pid: str) -> str:
        """Return which of the programs a process is; empty: none, or it is gone."""
        place = f"{self._proc}/{pid}"
        comm = os.fsencode(word_in(f"{place}/comm"))[:KERNEL_LENGTH]
        for name in self._names.get(comm, ()):
            if len(os.fsencode(name)) <= KERNEL_LENGTH or name in _whole_names(place):
                return name
        return ""

    def close(self) -> None:
        """It has nothing open."""


def _whole_names(place: str) -> Iterator[str]:
    """Yield how the file is called that a process executes, and how it was called."""
    with suppress(OSError):
        yield os.path.basename(os.readlink(f"{place}/exe"))
    with suppress(OSError):
        yield os.path.basename(read_text(f"{place}/cmdline").partition("\0")[0])
