"""Durability in the simulation: when a write is durable, and which messages leave then.

As in the daemon: a commit covers all that was written before it began, one is under way at a time,
and records that are not urgent wait a second for others to ride with.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from iriai.machine.outbox import Outbox
from iriai.model.records import Record
from iriai.sim.world.store_model import StoreModel

PATIENT_WRITE_S = 1.0
"""How long records that are not urgent may wait, as in the daemon's writer."""


class Commits:
    """The writer of one store: one commit at a time. Times are those of the world."""

    def __init__(self, store: StoreModel, sync_s: float) -> None:
        self._store = store
        self._sync_s = sync_s
        """How long a commit takes; 0: nothing is ever unsynced."""
        self.forget()

    def forget(self) -> None:
        """Forget all writes under way: the daemon died."""
        self.outbox = Outbox()
        """What leaves the machine."""
        self._written = self._durable = 0
        self._covers = 0
        """Up to where the commit under way goes."""
        self._done_s = self._begin_s = inf

    @property
    def next_s(self) -> float:
        """The time of the next `step`."""
        return self._begin_s if self._done_s == inf else self._done_s

    def write(self, records: Sequence[Record], is_urgent: bool, now_s: float) -> None:
        """Write the records of one turn."""
        if self._sync_s <= 0.0:
            self._store.write(records)
            return
        self._store.append(records)
        self._written += 1
        if is_urgent:
            self.outbox.close_gate(self._written)
        self._begin_s = min(self._begin_s, now_s if is_urgent else now_s + PATIENT_WRITE_S)
        if self._done_s == inf and self._begin_s <= now_s:
            self._begin(now_s)

    def step(self, now_s: float) -> None:
        """End the commit that is due, and begin the next."""
        if self._done_s <= now_s:
            self._store.commit(self._covers - self._durable)
            self._durable = self._covers
            self._done_s = inf
            self.outbox.durable(self._durable)
        if self._done_s == inf and self._begin_s <= now_s:
            self._begin(now_s)

    def _begin(self, now_s: float) -> None:
        self._covers = self._written
        self._done_s = now_s + self._sync_s
        self._begin_s = inf
