"""Wants by account, and within it by class: tasks of one class fit on a machine alike."""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import NamedTuple

from iriai.model.account import Account
from iriai.model.ids import JobId
from iriai.model.resources import Resources
from iriai.policy.calendar import END_SLACK_S, longest_stay_s
from iriai.protocol.messages import Want


class Precedence(NamedTuple):
    """Order within an account: what waits again, urgency, time waited, id. Smaller comes first."""

    not_front: bool
    less_urgent: float
    queued_at_s: float
    job: JobId


class _Class:
    """Tasks that fit alike: they take the same, and stay as long at most."""

    __slots__ = ("entries", "id", "stay_s")

    def __init__(self, class_id: int, stay_s: float | None) -> None:
        self.id = class_id
        self.stay_s = stay_s
        self.entries = 0


@dataclass(slots=True)
class Entry:
    """One job's waiting tasks."""

    want: Want
    precedence: Precedence
    kind: _Class
    count: int
    front: int
    """How many of them come before the account's others."""

    @property
    def class_id(self) -> int:
        """Equal for tasks that fit alike."""
        return self.kind.id

    @property
    def stay_s(self) -> float | None:
        """How long one of the tasks keeps its place at most; None: open."""
        return self.kind.stay_s


@dataclass(slots=True)
class AccountQueue:
    """What one account has waiting."""

    account: Account
    ready: int = 0
    heaps: dict[int, list[Precedence]] = field(default_factory=dict)
    """By class; those of entries that were replaced or moved since are dropped on the way."""


class Queues:
    """All wants; see the module."""

    def __init__(self, end_slack_s: float = END_SLACK_S) -> None:
        self._end_slack_s = end_slack_s
        self.accounts: dict[Account, AccountQueue] = {}
        self.entries: dict[JobId, Entry] = {}
        self._classes: dict[Resources, dict[float | None, _Class]] = {}
        """By what a task takes, and by how long it stays at most."""
        self._class_ids = 0

    def put(self, want: Want, now_s: float) -> None:
        """Replace what was known of the want's job."""
        self.remove(want.job)
        is_front = want.front > 0
        precedence = Precedence(not is_front, -want.urgency, now_s - want.waited_s, want.job)
        self._insert(Entry(want, precedence, self._class_of(want), want.count, want.front))
        self.accounts[want.account].ready += want.count

    def give_back(self, matched: Entry) -> None:
        """A match came to nothing: a task of the entry waits again, as far as is known."""
        entry = self.entries.get(matched.want.job)
        if entry is None:
            entry = matched
            entry.count = entry.front = 0
            entry.precedence = entry.precedence._replace(not_front=True)
            self._insert(entry)
        entry.count += 1
        self.accounts[entry.want.account].ready += 1

    def remove(self, job: JobId) -> bool:
        """Forget a job's want; False where there is none."""
        entry = self.entries.get(job)
        if entry is None:
            return False
        self._take(entry, entry.count)
        return True

    def take_one(self, entry: Entry) -> None:
        """One task of the entry was matched."""
        self._take(entry, 1)
        if entry.front:
            entry.front -= 1
            if not entry.front and entry.count:  # the others have not been started before
                entry.precedence = entry.precedence._replace(not_front=True)
                heap = self.accounts[entry.want.account].heaps[entry.class_id]
                heappush(heap, entry.precedence)

    def waiting(self) -> Iterator[AccountQueue]:
        """The accounts with something ready, in the order in which they were first seen."""
        yield from self.accounts.values()

    def first(self, queue: AccountQueue, without: Container[int] = ()) -> Entry | None:
        """The account's first entry whose class is not among `without`."""
        best: Entry | None = None
        for class_id in list(queue.heaps):
            if class_id in without:
                continue
            entry = self._head_of_class(queue, class_id)
            if entry is not None and (best is None or entry.precedence < best.precedence):
                best = entry
        return best

    def first_of_classes(self, queue: AccountQueue) -> list[Entry]:
        """The account's first entry of each class."""
        heads = [self._head_of_class(queue, class_id) for class_id in list(queue.heaps)]
        return [entry for entry in heads if entry is not None]

    def resources(self) -> Iterator[Resources]:
        """What waiting tasks take, each once."""
        return iter(self._classes)

    def classes_of(self, resources: Resources, longest_s: float) -> list[int]:
        """The classes of tasks that take `resources` and may stay longer than that."""
        alike = self._classes.get(resources, {})
        return [
            each.id for each in alike.values() if each.stay_s is None or each.stay_s > longest_s
        ]

    def check(self) -> None:
        """Raise where the accounts' sums are not those of their entries."""
        ready: dict[Account, int] = {}
        for entry in self.entries.values():
            assert entry.count > 0
            assert 0 <= entry.front <= entry.count
            account = entry.want.account
            ready[account] = ready.get(account, 0) + entry.count
        assert ready == {account: queue.ready for account, queue in self.accounts.items()}

    def _head_of_class(self, queue: AccountQueue, class_id: int) -> Entry | None:
        heap = queue.heaps[class_id]
        while heap:
            entry = self.entries.get(heap[0].job)
            if entry is not None and entry.precedence is heap[0]:
                return entry
            heappop(heap)
        del queue.heaps[class_id]
        return None

    def _insert(self, entry: Entry) -> None:
        """Make the entry known; its tasks are counted by the caller."""
        account = entry.want.account
        entry.kind = self._class_of(entry.want)  # its class may have gone with its last entry
        entry.kind.entries += 1
        self.entries[entry.want.job] = entry
        queue = self.accounts.get(account)
        if queue is None:
            queue = self.accounts[account] = AccountQueue(account)
        heappush(queue.heaps.setdefault(entry.class_id, []), entry.precedence)

    def _take(self, entry: Entry, count: int) -> None:
        account = entry.want.account
        entry.count -= count
        queue = self.accounts[account]
        queue.ready -= count
        if not queue.ready:
            del self.accounts[account]
        if not entry.count:
            del self.entries[entry.want.job]
            entry.kind.entries -= 1
            if not entry.kind.entries:
                self._forget_class(entry)

    def _class_of(self, want: Want) -> _Class:
        stay_s = longest_stay_s(want.limit_s, want.grace_s, self._end_slack_s)
        alike = self._classes.get(want.resources)
        if alike is None:
            alike = self._classes[want.resources] = {}
        known = alike.get(stay_s)
        if known is None:
            self._class_ids += 1
            known = alike[stay_s] = _Class(self._class_ids, stay_s)
        return known

    def _forget_class(self, entry: Entry) -> None:
        resources = entry.want.resources
        alike = self._classes[resources]
        del alike[entry.stay_s]
        if not alike:
            del self._classes[resources]
