"""Keeps GPUs from the tasks of pooled groups that they are not given to.

What is denied is changed only where the next task of a group has other cards than the last one.
"""

from __future__ import annotations

import os
from typing import Protocol

from iriai.launcher.containment.cgroups.device_program import attach, load
from iriai.launcher.containment.cgroups.files import write_file

Nodes = tuple[tuple[int, int], ...]
"""Major and minor numbers of the character devices of one card."""


class Devices(Protocol):
    """Which cards the members of a group can open."""

    def allow(self, gpu_ids: tuple[int, ...]) -> None:
        """These cards, by number, and none of the others. Raises OSError."""
        ...

    def close(self) -> None:
        """Close what is open."""
        ...


def denied_nodes(cards: tuple[Nodes, ...], gpu_ids: tuple[int, ...]) -> frozenset[tuple[int, int]]:
    """What opens cards other than these; a node that two cards share is not denied to either."""
    own = {node for each in gpu_ids if each < len(cards) for node in cards[each]}
    return frozenset(node for nodes in cards for node in nodes) - own


class DevicesV1:
    """The `devices` controller of version 1."""

    def __init__(self, directory: str, cards: tuple[Nodes, ...]) -> None:
        self._directory = directory
        self._cards = cards
        self._gpu_ids: tuple[int, ...] | None = None
        self._denied: frozenset[tuple[int, int]] = frozenset()

    def allow(self, gpu_ids: tuple[int, ...]) -> None:
        """These cards, by number, and none of the others. Raises OSError."""
        if gpu_ids == self._gpu_ids:
            return
        denied = denied_nodes(self._cards, gpu_ids)
        for name, nodes in (
            ("devices.deny", denied - self._denied),
            ("devices.allow", self._denied - denied),
        ):
            for major, minor in sorted(nodes):
                write_file(self._directory, name, f"c {major}:{minor} rwm")
        self._gpu_ids, self._denied = gpu_ids, denied

    def close(self) -> None:
        """Nothing is open."""


class DevicesV2:
    """A program of the kernel's, in a group of version 2."""

    def __init__(self, directory: str, cards: tuple[Nodes, ...]) -> None:
        self._cards = cards
        self._gpu_ids: tuple[int, ...] | None = None
        self._program_fd = -1
        self._group_fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def allow(self, gpu_ids: tuple[int, ...]) -> None:
        """These cards, by number, and none of the others. Raises OSError."""
        if gpu_ids == self._gpu_ids:
            return
        program_fd = load(denied_nodes(self._cards, gpu_ids))
        try:
            attach(self._group_fd, program_fd, self._program_fd)
        except OSError:
            os.close(program_fd)
            raise
        if self._program_fd >= 0:
            os.close(self._program_fd)
        self._program_fd, self._gpu_ids = program_fd, gpu_ids

    def close(self) -> None:
        """Close what is open; the program goes with its group."""
        if self._program_fd >= 0:
            os.close(self._program_fd)
        os.close(self._group_fd)
