"""The controller of processes, whose files are the same in both versions."""

from __future__ import annotations

import os

from iriai.launcher.containment.cgroups.files import open_file, read_field, read_number, write_file


class Pids:
    """pids.max and what belongs to it."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._count_fd = open_file(directory, "pids.current")
        self._limit = 0
        self._base_refusals = 0

    def set_limit(self, processes: int) -> None:
        """Limit the group; 0 is no limit, -1 lets nobody fork."""
        if processes != self._limit:
            text = "max" if not processes else str(max(processes, 0))
            write_file(self._directory, "pids.max", text)
            self._limit = processes

    def count(self) -> int:
        """Processes and threads in the group, zombies too."""
        return read_number(self._count_fd)

    def refusals(self) -> int:
        """How often the limit refused a new process since the last `reset`."""
        return self._refusals_ever() - self._base_refusals

    def reset(self) -> None:
        """Count from here."""
        if self._limit:
            self._base_refusals = self._refusals_ever()

    def close(self) -> None:
        """Close what is open."""
        os.close(self._count_fd)

    def _refusals_ever(self) -> int:
        fd = open_file(self._directory, "pids.events")
        try:
            return read_field(fd, b"max")
        finally:
            os.close(fd)
