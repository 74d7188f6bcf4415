"""Wants by account, and within it by class: tasks of one class fit on a machine alike."""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import NamedTuple

from iriai.model.account import Account
from iriai.model.ids import JobId
from iriai.model.resources import Resources
from iriai.protocol.messages import Want


class Precedence(NamedTuple):
    """Order within an account: urgency, evicted tasks, time waited, id. Smaller comes first."""

    less_urgent: float
    not_front: bool
    queued_at_s: float
    job: JobId


@dataclass(slots=True)
class Entry:
    """One job's waiting tasks."""

    want: Want
    precedence: Precedence
    class_id: int
    count: int


@dataclass(slots=True)
class AccountQueue:
    """What one account has waiting."""

    account: Account
    ready: int = 0
    heaps: dict[int, list[tuple[Precedence, int]]] = field(default_factory=dict)
    """By class: (precedence, stamp) of its entries; those replaced since are dropped on the way."""


class Queues:
    """All wants; see the module."""

    def __init__(self) -> None:
        self.accounts: dict[Account, AccountQueue] = {}
        self.entries: dict[JobId, Entry] = {}
        self._classes: dict[tuple[Resources, float | None], int] = {}
        self._stamps: dict[JobId, int] = {}
        self._stamp = 0

    def put(self, want: Want, now_s: float) -> None:
        """Replace what was known of the want's job."""
        self.remove(want.job)
        class_id = self._classes.setdefault((want.resources, want.limit_s), len(self._classes))
        precedence = Precedence(-want.urgency, not want.front, now_s - want.waited_s, want.job)
        self.entries[want.job] = Entry(want, precedence, class_id, want.count)
        queue = self.accounts.get(want.account)
        if queue is None:
            queue = self.accounts[want.account] = AccountQueue(want.account)
        queue.ready += want.count
        self._stamp += 1
        self._stamps[want.job] = self._stamp
        heappush(queue.heaps.setdefault(class_id, []), (precedence, self._stamp))

    def remove(self, job: JobId) -> bool:
        """Forget a job's want; False where there is none."""
        entry = self.entries.pop(job, None)
        if entry is None:
            return False
        del self._stamps[job]
        self._take(entry, entry.count)
        return True

    def take_one(self, entry: Entry) -> None:
        """One task of the entry was matched."""
        entry.count -= 1
        self._take(entry, 1)
        if not entry.count:
            del self.entries[entry.want.job]
            del self._stamps[entry.want.job]

    def waiting(self) -> Iterator[AccountQueue]:
        """The accounts with something ready, in the order in which they were first seen."""
        yield from self.accounts.values()

    def first(self, queue: AccountQueue, without: Container[int] = ()) -> Entry | None:
        """The account's first entry whose class is not among `without`."""
        best: Precedence | None = None
        for class_id in list(queue.heaps):
            if class_id in without:
                continue
            precedence = self._head_of_class(queue, class_id)
            if precedence is not None and (best is None or precedence < best):
                best = precedence
        return None if best is None else self.entries[best.job]

    def _head_of_class(self, queue: AccountQueue, class_id: int) -> Precedence | None:
        heap = queue.heaps[class_id]
        while heap:
            precedence, stamp = heap[0]
            if self._stamps.get(precedence.job) == stamp:
                return precedence
            heappop(heap)
        del queue.heaps[class_id]
        return None

    def _take(self, entry: Entry, count: int) -> None:
        queue = self.accounts[entry.want.account]
        queue.ready -= count
        if not queue.ready:
            del self.accounts[entry.want.account]
        if not self.accounts:
            self._classes.clear()  # else classes that nobody asks for any more would add up
