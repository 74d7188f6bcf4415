"""The state of other clusters, and the reports to them (docs/spec/008, section 6).

For each it keeps the broker and the last summary, less the tasks forwarded there since, so that
no two tasks are sent to the same place.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil, inf
from typing import NamedTuple

from iriai.broker.state.state import BrokerState
from iriai.model.ranks import RankShape
from iriai.model.resources import NOTHING, Resources
from iriai.protocol.messages.candidates import ClusterPeer
from iriai.protocol.messages.effects import Part, Send
from iriai.protocol.messages.scheduling import Summary, Vacancy


class Portions(NamedTuple):
    """What a task takes: equal portions, each on one machine; a task of one rank has one."""

    need: Resources
    """Of one portion."""
    number: int = 1
    are_apart: bool = False
    """Whether each must be on a machine of its own."""

    @classmethod
    def of(cls, rank: Resources, shape: RankShape) -> Portions:
        """Return those of a task with the least number of ranks of its shape."""
        if shape.per_node is not None:
            return cls(rank.times(shape.per_node), ceil(shape.least / shape.per_node), True)
        if shape.nodes is not None:
            return cls(rank.times(shape.least // shape.nodes), shape.nodes, True)
        return cls(rank, shape.least)


class RemoteCapacity:
    """Free capacity of another cluster: its report less the tasks forwarded since.

    It is coarse, and may be out of date.
    """

    __slots__ = ("_each", "_left", "_machines")

    def __init__(self, vacancy: Vacancy) -> None:
        self._machines = max(1, vacancy.machines)
        self._each = {name: there // self._machines for name, there in vacancy.free.amounts()}
        self._left = dict(vacancy.free.amounts())

    def fits(self, need: Resources, *, are_apart: bool = False) -> int:
        """Return the number of tasks of that need, or portions, that may find a place."""
        needs = [(name, amount) for name, amount in need.amounts() if amount > 0]
        if not needs:
            return 0
        on_each = min(self._each.get(name, 0) // amount for name, amount in needs)
        on_each = min(on_each, 1) if are_apart else on_each
        on_all = min(self._left.get(name, 0) // amount for name, amount in needs)
        return min(on_each * self._machines, on_all)

    @property
    def is_empty(self) -> bool:
        """Return whether no task will find a place any more: each takes a cpu at least."""
        return self._left.get("cpus", 0) < 1

    def reserve(self, need: Resources, count: int) -> None:
        """Reserve places for tasks that were forwarded."""
        for name, amount in need.amounts():
            if amount:
                self._left[name] = self._left.get(name, 0) - amount * count


TELL_S = 30.0
"""Between two summaries to a cluster for which nothing changed. Errors cost little: tasks forwarded
by a wrong summary come back within a moment."""
STALE_S = 3 * TELL_S
"""A cluster that is silent for three summaries counts as full, and may have another broker."""
NEWS_S = 1.0
"""Between two rounds of summaries to clusters that wait, because something has become free here."""
NEWS_MAX = 4
"""Clusters in such a round, if fewer machines are free: of a hundred that wait for one machine all
but one would ask in vain. Rounds take turns."""
WAITS_S = 5.0
"""Between two summaries to one cluster because of work that waits here: in a queue that is emptied
and filled many times a second that is no news."""
VACANCIES_MAX = 16
"""In a summary; the smallest are left out. Free cpus in powers of two, with and without GPUs."""
LARGEST_MAX = 8
"""Capacities in a summary, the largest of those that are no part of another."""


class PeerCluster:
    """Another cluster, as this broker knows it."""

    def __init__(self, neighbour: ClusterPeer) -> None:
        self.cluster = neighbour.cluster
        self.candidates = neighbour.candidates
        self.address_first()
        self.capacities: list[RemoteCapacity] = []
        self.largest: tuple[Resources, ...] = ()
        self.is_waiting = False
        """Whether it has more than it can serve."""
        self.last_contact_s = -inf
        self.knows_free = False
        """Whether it knows of free machines here, and has forwarded nothing since."""
        self.knows_waiting = False
        """Whether the last summary to it reported waiting tasks."""

    def address_first(self) -> None:
        """Take its first candidate for its broker, which gets a summary next."""
        self.broker = self.candidates[0] if self.candidates else ""
        self.last_summary_s = -inf

    def address_next(self) -> None:
        """Take the next candidate for its broker, in turn: the one that was is silent."""
        is_candidate = self.broker in self.candidates
        place = self.candidates.index(self.broker) + 1 if is_candidate else 0
        self.broker = self.candidates[place % len(self.candidates)] if self.candidates else ""
        self.last_summary_s = -inf

    def fits(self, task: Portions) -> int:
        """Return the number of such tasks that may find a place there."""
        need, number, are_apart = task
        return sum(room.fits(need, are_apart=are_apart) for room in self.capacities) // number

    def reserve(self, task: Portions, count: int) -> None:
        """Reserve places for tasks that were forwarded there."""
        need, left = task.need, count * task.number
        for room in self.capacities:
            taken = min(left, room.fits(need))
            room.reserve(need, taken)
            left -= taken
        self.capacities = [room for room in self.capacities if not room.is_empty]

    def lacks(self, task: Portions) -> None:
        """Drop capacities that seem to fit such a task: they are out of date.

        Where it has several portions they may be right, and of several pools.
        """
        if task.number == 1:
            self.capacities = [room for room in self.capacities if not room.fits(task.need)]

    def may_hold(self, task: Portions) -> bool:
        """Return whether a machine of it is large enough, by what is known."""
        return any(task.need.fits_in(capacity) for capacity in self.largest)


class PeerClusters:
    """The reported state of other clusters. Times are those of the steady clock."""

    def __init__(self, machine: str) -> None:
        self._machine = machine
        self.own = ""
        """The name of this broker's cluster."""
        self.known: dict[str, PeerCluster] = {}
        """By name, all but its own."""
        self._addressed: dict[str, str] = {}
        """The cluster for which each machine was addressed."""
        self._news_s = -inf
        """When the next round of news may be sent."""

    # --- who they are ----------------------------------------------------------------------------

    def peers_changed(self, own: str, neighbours: Iterable[ClusterPeer]) -> None:
        """Take the clusters of the site; `own` is the name of this broker's."""
        self.own = own
        before, self.known = self.known, {}
        for neighbour in neighbours:
            if neighbour.cluster == own:
                continue
            other = before.get(neighbour.cluster)
            if other is None:
                other = PeerCluster(neighbour)
            elif other.candidates != neighbour.candidates:
                is_gone = other.broker in other.candidates
                is_gone &= other.broker not in neighbour.candidates
                other.candidates = neighbour.candidates
                if is_gone or not other.broker:
                    other.address_first()
            self.known[other.cluster] = other
        self._addressed = {m: name for m, name in self._addressed.items() if name in self.known}

    def corrected(self, sender: str, broker: str) -> bool:
        """Take the name of a cluster's broker from a machine that was addressed as such.

        Returns whether the machine was addressed.
        """
        other = self.known.get(self._addressed.get(sender, ""))
        if other is None:
            return False
        if sender == other.broker and broker != sender:
            other.broker = broker
            other.last_summary_s = -inf
        return True

    def summary(self, other: PeerCluster) -> str:
        """Return the machine to address as broker; from now on it may correct that."""
        self._addressed[other.broker] = other.cluster
        return other.broker

    # --- their reports ---------------------------------------------------------------------------

    def took(self, summary: Summary, now_s: float) -> None:
        """Take a cluster's summary; its sender is its broker."""
        other = self.known.get(summary.cluster)
        if other is None:
            return
        other.broker = summary.broker
        self._addressed[summary.broker] = summary.cluster
        other.capacities = [
            RemoteCapacity(vacancy) for vacancy in summary.vacancies[:VACANCIES_MAX]
        ]
        other.largest = summary.largest[:LARGEST_MAX]
        other.is_waiting = summary.waiting > 0
        other.last_contact_s = now_s
        if other.is_waiting:
            other.knows_free = False

    def received_forward(self, broker: str) -> None:
        """Note that a broker forwarded tasks: it has used up what it knew to be free."""
        other = self.known.get(self._addressed.get(broker, ""))
        if other is not None:
            other.knows_free = False

    # --- reports to them -------------------------------------------------------------------------

    def summaries_due(self, state: BrokerState, now_s: float) -> list[Send]:
        """Return the summaries that are due, and count them as sent."""
        free, waiting = _free_machines(state), state.queues.ready
        due = [other for other in self.known.values() if self._due_s(other, waiting) <= now_s]
        if free and self._news_s <= now_s:
            eager = [
                each for each in self.known.values() if _awaits_capacity(each) and each not in due
            ]
            eager.sort(key=lambda other: other.last_summary_s)
            due += eager[: max(NEWS_MAX, free)]
            if eager:
                self._news_s = now_s + NEWS_S
        if not due:
            return []
        vacancies, largest = vacancies_of(state), _largest(state.index.capacities())
        summary = Summary(self._machine, self.own, vacancies, largest, waiting)
        for other in due:
            if other.last_summary_s > -inf and other.last_contact_s + STALE_S <= now_s:
                other.address_next()
            other.last_summary_s = now_s
            other.knows_free, other.knows_waiting = bool(vacancies), waiting > 0
        return [Send(self.summary(other), Part.BROKER, summary) for other in due]

    def next_s(self, state: BrokerState) -> float:
        """Return when one is due next."""
        waiting = state.queues.ready
        next_s = min((self._due_s(other, waiting) for other in self.known.values()), default=inf)
        if _free_machines(state) and any(map(_awaits_capacity, self.known.values())):
            next_s = min(next_s, self._news_s)
        return next_s

    def _due_s(self, other: PeerCluster, waiting: int) -> float:
        if not other.broker:
            return inf
        is_news = waiting and not other.knows_waiting
        return other.last_summary_s + (WAITS_S if is_news else TELL_S)


def _awaits_capacity(other: PeerCluster) -> bool:
    """Return whether a cluster has waiting tasks and does not know of free machines here."""
    return other.is_waiting and not other.knows_free and bool(other.broker)


def _free_machines(state: BrokerState) -> int:
    """Return the number of machines with something free that are kept for no task."""
    ranks, kept = state.index.open.ranks, _kept_pools(state)
    if kept:
        views = state.machines
        return sum(name not in state.reserved and views[name].pool not in kept for name in ranks)
    return len(ranks) - sum(name in ranks for name in state.reserved)


def _kept_pools(state: BrokerState) -> frozenset[str]:
    """Return the pools in which places are kept for a parallel head."""
    heads = state.heads.by_job.values()
    if any(head.is_across for head in heads):
        return frozenset(view.pool for view in state.machines.values())
    return frozenset(head.pool for head in heads)


def vacancies_of(state: BrokerState) -> tuple[Vacancy, ...]:
    """Return what is free and not reserved, by groups of machines with about as many free CPUs."""
    alike: dict[tuple[int, bool], tuple[int, Resources]] = {}
    kept = _kept_pools(state)
    for view in state.index.open.with_capacity(Resources(1)):
        if view.name in state.reserved or view.pool in kept:
            continue
        free = view.calendar.free
        key = (free.cpus.bit_length(), free.gpus > 0)
        machines, together = alike.get(key, (0, NOTHING))
        alike[key] = (machines + 1, together.plus(free))
    largest_first = sorted(alike, reverse=True)[:VACANCIES_MAX]
    return tuple(Vacancy(*alike[key]) for key in largest_first)


def _largest(capacities: list[Resources]) -> tuple[Resources, ...]:
    """Return the capacities that do not fit in another."""
    tops = [
        one
        for one in capacities
        if not any(one.fits_in(other) and one != other for other in capacities)
    ]
    tops.sort(key=lambda one: (one.cpus, one.memory_bytes, one.gpus), reverse=True)
    return tuple(tops[:LARGEST_MAX])
