"""Rumours as paper 001 has them (sections 2.3.1 and 4.5): told until enough others knew already.

A directory of the product that spreads what it learns in the paper's way instead of its own. It
does not reach everybody.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random
from typing import NamedTuple

from iriai.config.sections import GossipSection
from iriai.model.instant import Instant
from iriai.protocol.directory.directory import Directory
from iriai.protocol.directory.entry_table import EntryTable, MergeResult
from iriai.protocol.directory.publisher import Publisher
from iriai.protocol.messages.entries import Carried, DigestRow, Entry, EntryKey
from iriai.protocol.misbehaviour import Incidents
from iriai.protocol.sampling import some


class Rumour(NamedTuple):
    """The entries that a machine still spreads. Answered with `Known` and rumours."""

    entries: tuple[Carried, ...]
    is_answer: bool


class Known(NamedTuple):
    """The answer to `Rumour`: entries that the sender knew already, or later ones."""

    rows: tuple[DigestRow, ...]


class RumourSettings(NamedTuple):
    """How rumours spread."""

    period_s: float
    """Between two rounds of a machine; in each it tells one other."""
    stop_after: int
    """The number of receivers that knew an entry already after which it is no longer spread."""
    answers: bool
    """Whether who hears some tells its own in return (section 4.5: tables are exchanged) or not
    (section 2.3.1)."""


class RumourDirectory(Directory):
    """A directory that spreads rumours: `drain_rumours` returns messages, `hear` takes them."""

    def __init__(
        self,
        publisher: Publisher,
        table: EntryTable,
        notices: Incidents,
        rng: Random,
        settings: RumourSettings,
    ) -> None:
        super().__init__(publisher, table, notices, rng, GossipSection(settings.period_s))
        self._rules = settings
        self.told: dict[EntryKey, tuple[tuple[int, int, int], int]] = {}
        """The entries that are still spread: the version, and how many knew it."""
        self._said: list[tuple[str, Rumour | Known]] = []

    def changed(
        self, came: Iterable[Entry], gone: Iterable[EntryKey], sender: str, now: Instant
    ) -> None:
        """Spread the entries that came, and no longer those that are gone."""
        came, gone = list(came), list(gone)
        super().changed(came, gone, sender, now)
        for entry in came:
            self.told[entry.key] = (entry.row.order, 0)
        for key in gone:
            self.told.pop(key, None)

    def hear(self, sender: str, message: Rumour | Known, now: Instant) -> None:
        """Handle a message of another machine."""
        if isinstance(message, Known):
            self._count(message.rows)
        else:
            self._answer(sender, message, now)
        self._poll_timers(now)

    def drain_rumours(self) -> Sequence[tuple[str, Rumour | Known]]:
        """Return the messages to send, with their receivers."""
        said, self._said = self._said, []
        return said

    def _answer(self, sender: str, message: Rumour, now: Instant) -> None:
        own = [] if message.is_answer else list(self.told)  # before these are added
        known = [
            carried.entry.row
            for carried in message.entries
            if self._table.merge(carried, sender, now) is MergeResult.KNOWN
        ]
        if known:
            self._said.append((sender, Known(tuple(known))))
        if self._rules.answers and own:
            self._tell(sender, own, now, is_answer=True)

    def _count(self, rows: Iterable[DigestRow]) -> None:
        for row in rows:
            version, count = self.told.get(row.key, (row.order, -1))
            if count < 0 or version > row.order:
                continue
            if count + 1 >= self._rules.stop_after:
                del self.told[row.key]
            else:
                self.told[row.key] = (version, count + 1)

    def _begin_exchange(self, now: Instant, beside: str = "") -> None:
        self.rounds += 1
        self._due_s = self._period_ends_s = now.steady_s + self._rules.period_s
        for name in some(self.partners, 1, self._rng):
            self._tell(name, self.told, now)

    def _tell(
        self, machine: str, keys: Iterable[EntryKey], now: Instant, *, is_answer: bool = False
    ) -> None:
        batches = list(self._batches(machine, keys, now))
        if not batches and self._rules.answers and not is_answer:
            batches = [()]  # nothing to tell, but perhaps something to hear
        self._said += [(machine, Rumour(batch, is_answer)) for batch in batches]
