"""Iteration over all waiting jobs in the order of the configuration."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from random import Random

from iriai.broker.queue.entries import Precedence, Queue, QueuedJob
from iriai.broker.state.state import BrokerState
from iriai.model.ids import Account
from iriai.model.instant import Instant
from iriai.policy.draw.order import Contender, GroupUsage

_Walk = tuple[Precedence, int, Iterator[Precedence]]
"""A line's next precedence, a unique number, and the iterator of the rest."""


def in_order(state: BrokerState, rng: Random, now: Instant) -> Iterator[QueuedJob]:
    """Yield the waiting entries that could ever run; entries may start during the iteration.

    Under an order that draws, each step draws an account, as if all earlier entries had started.
    """
    shared = state.queues.shared
    if shared is not None:
        yield from _entries(state, shared)
    elif state.queues.accounts:
        yield from _Draw(state, rng, now).entries()


def _entries(state: BrokerState, queue: Queue) -> Iterator[QueuedJob]:
    """Yield the entries of one queue, by precedence."""
    for precedence in _precedences(queue):
        entry = state.queues.entries.get(precedence.job)
        if entry is not None and entry.precedence is precedence and entry.count:
            yield entry


def _precedences(queue: Queue) -> Iterator[Precedence]:
    """Yield precedences of all entries, and of some that are gone, smallest first.

    Lines are added one by one, so that a caller that needs only the first few pays for those alone.
    """
    walks: list[_Walk] = []
    for number, (first, line) in enumerate([(line.first, line) for line in queue.order]):
        while walks and walks[0][0] < first:
            yield _step(walks)
        heap = list(line.heap) if len(line.heap) > 1 else []  # before the first may start
        yield first
        if heap:
            _go_on(walks, number, behind(heap, first))
    while walks:
        yield _step(walks)


def _step(walks: list[_Walk]) -> Precedence:
    precedence, number, behind = heappop(walks)
    _go_on(walks, number, behind)
    return precedence


def _go_on(walks: list[_Walk], number: int, behind: Iterator[Precedence]) -> None:
    following = next(behind, None)
    if following is not None:
        heappush(walks, (following, number, behind))


def behind(heap: list[Precedence], first: Precedence) -> Iterator[Precedence]:
    """Yield the items after `first` in a heap, which is not changed."""
    ahead = [(heap[0], 0)]
    while ahead:
        precedence, place = heappop(ahead)
        for child in (2 * place + 1, 2 * place + 2):
            if child < len(heap):
                heappush(ahead, (heap[child], child))
        if precedence > first:
            yield precedence


class _Draw:
    """Accounts with their waiting entries."""

    def __init__(self, state: BrokerState, rng: Random, now: Instant) -> None:
        self._state = state
        self._rng = rng
        self._wall_s = now.wall_s
        state.contention.begin(now.wall_s, state.index.total_cpus)
        self._groups: dict[str, GroupUsage] = dict(state.contention.groups)
        self._contenders: dict[Account, Contender] = {}
        self._next: dict[Account, tuple[QueuedJob, Iterator[QueuedJob]]] = {}
        for queue in list(state.queues.accounts.values()):
            usage_s = state.usage.in_draw_s(queue.account, now.wall_s)
            self._advance(queue.account, _entries(state, queue.queue), usage_s)

    def entries(self) -> Iterator[QueuedJob]:
        """Draw until no entry is left."""
        order = self._state.settings.order
        while self._contenders:
            contenders = list(self._contenders.values())
            if self._state.queues.lower:
                contenders = self._of_first_level()
            account = order.choose(contenders, self._groups, self._rng)
            drawn = self._contenders[account]
            entry, behind = self._next[account]
            charge_s = self._adds_s(drawn, entry)
            group = self._groups.get(account.group)
            if group is not None:
                self._groups[account.group] = group._replace(usage_s=group.usage_s + charge_s)
            yield entry
            self._advance(account, behind, drawn.usage_s + charge_s)

    def _adds_s(self, drawn: Contender, entry: QueuedJob) -> float:
        """Return by how much the account would have used more if this started."""
        taken = entry.want.resources.times(entry.want.shape.least)
        return self._state.usage.start_adds_s(taken, drawn.expected_s, drawn.urgency)

    def _of_first_level(self) -> list[Contender]:
        levels = {account: entry.precedence.level for account, (entry, _) in self._next.items()}
        first = min(levels[account] for account in self._contenders)
        return [each for account, each in self._contenders.items() if levels[account] == first]

    def _advance(self, account: Account, entries: Iterator[QueuedJob], usage_s: float) -> None:
        entry = next(entries, None)
        if entry is None:
            self._contenders.pop(account, None)
            return
        self._next[account] = (entry, entries)
        self._contenders[account] = self._state.contention.contender(
            account, entry.want, entry.precedence.queued_at_s, usage_s
        )
        if self._groups and account.group not in self._groups:
            right = self._state.settings.configuration.right_of_group(account.group)
            self._groups[account.group] = GroupUsage(account.group, right, usage_s)
