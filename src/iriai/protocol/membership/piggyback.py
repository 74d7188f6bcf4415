"""Piggybacked news of the membership: told least often first, a bounded number of times (SWIM)."""

from __future__ import annotations

from math import ceil, log10

from iriai.model.instant import Instant
from iriai.protocol.directory.entry_table import EntryTable
from iriai.protocol.messages.entries import Carried, EntryKey, EntryKind
from iriai.protocol.messages.gossip import Doubt, News

MEMBERS_A_MESSAGE_MAX = 8
DOUBTS_A_MESSAGE_MAX = 16
"""With the entries a few kilobytes for each probe."""
TOLD_FACTOR = 3.0
"""SWIM's lambda: of 500 members one in a thousand does not hear of something told so often."""


class PiggybackQueue:
    """News to send, one item for each machine: its entry, or the latest doubt of it."""

    def __init__(self, table: EntryTable) -> None:
        self._table = table
        self._members: dict[str, int] = {}
        """How often each machine's entry was sent."""
        self._doubts: dict[str, tuple[Doubt, int]] = {}

    def member(self, machine: str) -> None:
        """Queue the new entry of a machine; it replaces doubts of it."""
        self._members[machine] = 0
        self._doubts.pop(machine, None)

    def suspect(self, doubt: Doubt) -> None:
        """Queue a doubt."""
        self._doubts[doubt.machine] = (doubt, 0)

    def next_batch(self, members: int, now: Instant, about: Doubt | None = None) -> News:
        """Return news for one message in a cluster of `members`, `about` always included."""
        told_max = ceil(TOLD_FACTOR * log10(members + 1)) + 2
        doubts = {about.machine: about} if about is not None else {}
        for doubt in self._least_sent_suspicions():
            doubts.setdefault(doubt.machine, doubt)
            self._count_suspicion(doubt, told_max)
        return News(tuple(self._entries(told_max, now)), tuple(doubts.values()))

    def _entries(self, told_max: int, now: Instant) -> list[Carried]:
        chosen = sorted(self._members, key=self._members.__getitem__)[:MEMBERS_A_MESSAGE_MAX]
        entries = []
        for machine in chosen:
            carried = self._table.carried(EntryKey(machine, EntryKind.MEMBER), now)
            if carried is not None:
                entries.append(carried)
            self._members[machine] += 1
            if carried is None or self._members[machine] >= told_max:
                del self._members[machine]
        return entries

    def _least_sent_suspicions(self) -> list[Doubt]:
        pairs = sorted(self._doubts.values(), key=lambda pair: pair[1])
        return [doubt for doubt, _ in pairs[: DOUBTS_A_MESSAGE_MAX - 1]]

    def _count_suspicion(self, doubt: Doubt, told_max: int) -> None:
        told = self._doubts[doubt.machine][1] + 1
        if told < told_max:
            self._doubts[doubt.machine] = (doubt, told)
        else:
            del self._doubts[doubt.machine]
