"""Received entries, processed a few at a time: each has a signature to check.

Between two slices whoever drives this does other work. Each sender has its turn. Pure.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable

from iriai.protocol.messages.entries import Carried, EntryKind

SLICE = 32
"""Entries of one slice: some milliseconds of work."""
WAITING_MAX = 8_192
"""Waiting entries of one sender; more are dropped, and sent again in a later exchange."""


class EntrySlices:
    """Received entries that are processed a few at a time."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, deque[Carried]] = OrderedDict()

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def add(self, sender: str, entries: Iterable[Carried]) -> None:
        """Queue entries of `sender`, certificates first: the others are verified with them."""
        waiting = self._waiting.setdefault(sender, deque())
        room = WAITING_MAX - len(waiting)
        first = sorted(entries, key=lambda each: each.entry.kind != EntryKind.CERTIFICATE)
        waiting.extend(first[:room])
        if not waiting:
            del self._waiting[sender]

    def pop(self) -> tuple[str, tuple[Carried, ...]]:
        """Return the sender whose turn it is and its next entries; ("", ()) if none wait."""
        if not self._waiting:
            return "", ()
        sender, waiting = self._waiting.popitem(last=False)
        entries = tuple(waiting.popleft() for _ in range(min(SLICE, len(waiting))))
        if waiting:
            self._waiting[sender] = waiting
        return sender, entries
