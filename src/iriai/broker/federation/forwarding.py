"""Forwarding of tasks to other clusters if no machine of this one can start them now.

A forwarded task does not wait here until it is returned, or its home reports that it started: at
every moment one broker schedules it. Without an answer it comes back by itself. An unanswered
forward costs a delay; a job queued at two brokers costs one declined match.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate, chain, islice
from math import inf
from random import Random

from iriai.broker.federation.forwarded_jobs import ForwardedJobs, unpromised
from iriai.broker.federation.peer_clusters import PeerCluster, PeerClusters, Portions
from iriai.broker.queue.entries import QueuedJob, is_guest
from iriai.broker.state.queue_order import in_order
from iriai.broker.state.state import BrokerState
from iriai.model.ids import JobId
from iriai.model.instant import Instant
from iriai.model.reason import Reason
from iriai.protocol.messages.effects import Part, Send
from iriai.protocol.messages.scheduling import Forward, Returned, Want

HOPS_MAX = 2
"""A task that a wrong summary misled is forwarded once more; after two it goes back, not around."""
RESEND_S = 1.0
"""A forward without an answer for so long is sent again, to the present broker."""
GIVE_UP_S = 10.0
"""Tasks without an answer for so long come back; also those that were answered, but of which the
home reports nothing: as long as a match lasts."""
TASKS_MAX = 256
"""Tasks forwarded in one turn."""
LOOKS_MAX = 1_000
"""Jobs that are considered in one turn, and at most so many that no machine here could ever run."""
BUSY_S = 5.0
"""A cluster that returned a job's tasks, as others were faster, gets none of it for so long."""
UNFIT_S = 300.0
"""Likewise, if no machine there will ever run them."""
REFUSALS_MAX = 4_000
"""Jobs whose returns are remembered, as many as answers are at the other end; the oldest are
forgotten, which costs a message in vain."""


@dataclass(slots=True, eq=False)
class ForwardedBatch:
    """Tasks of a job that were forwarded to another cluster."""

    entry: QueuedJob
    forward: Forward
    cluster: str
    sent_s: float
    """When it was sent, the last time."""
    until_s: float
    """When its tasks come back if nothing is heard of them."""
    is_copy: bool
    """Whether the task waits here as well: the last of a reserved head, whose place is kept."""
    count: int
    """The number of tasks that may still come back."""
    asked: set[str] = field(default_factory=set)
    """Machines to which it was sent, one each time at most: they alone may answer."""
    is_answered: bool = False

    @property
    def next_s(self) -> float:
        """Return when it is sent again, or comes back."""
        if self.is_answered:
            return self.until_s
        return min(self.until_s, self.sent_s + RESEND_S)


class Forwarder:
    """Forwards tasks to other clusters. Times are those of the steady clock."""

    def __init__(self, machine: str, peers: PeerClusters) -> None:
        self._machine = machine
        self._peers = peers
        self._of_jobs: dict[JobId, dict[int, ForwardedBatch]] = {}
        """By number."""
        self._jobs: dict[int, JobId] = {}
        self._refused_by: dict[JobId, dict[str, tuple[float, Reason | None]]] = {}
        """Clusters that returned a job's tasks: until when they get none of it, and why."""
        self._number = 0
        self.next_s = inf
        """When `review` is due, or earlier."""
        self.retry_s = inf
        """When a cluster with room may be asked again by a job that it returned."""

    # --- queries ---------------------------------------------------------------------------------

    def has(self, job: JobId) -> bool:
        """Return whether tasks of it are with other clusters."""
        return job in self._of_jobs

    def jobs_of(self, home: str) -> list[JobId]:
        """Return the jobs of a home that have tasks with other clusters."""
        return [job for job in self._of_jobs if job.home == home]

    def clusters_of(self, job: JobId) -> list[str]:
        """Return the clusters that have not answered yet for tasks of the job."""
        there = self._of_jobs.get(job, {}).values()
        return [passed.cluster for passed in there if not passed.is_answered]

    def why_not(self, job: JobId, cluster: str) -> Reason | None:
        """Return why a cluster returned the job's tasks, if it said so."""
        refused = self._refused_by.get(job, {}).get(cluster)
        return None if refused is None else refused[1]

    # --- answers ---------------------------------------------------------------------------------

    def wanted(self, job: JobId, count: int, queued: int) -> int:
        """Return how many of the `count` ready tasks of a job wait here; `queued` did before.

        If fewer are ready than waited here and elsewhere, forwarded ones have started.
        """
        there = [passed for passed in self._of_jobs.get(job, {}).values() if not passed.is_copy]
        there.sort(key=lambda passed: not passed.is_answered)  # what is not may be returned yet
        away = sum(passed.count for passed in there)
        begun = max(0, queued + away - count)
        for passed in there:
            taken = min(begun, passed.count)
            passed.count -= taken
            begun -= taken
            away -= taken
            if not passed.count and passed.is_answered:
                self._drop(passed)
        return max(0, count - away)

    def forget(self, job: JobId) -> None:
        """Forget a job of which no task is wanted any more."""
        for number in self._of_jobs.pop(job, {}):
            del self._jobs[number]
        if not self._jobs:
            self.next_s = inf
        self._refused_by.pop(job, None)

    def returned(self, message: Returned, state: BrokerState, now_s: float) -> bool:
        """Take an answer; return whether tasks wait here again."""
        job = self._jobs.get(message.number)
        if job is None:
            return False
        passed = self._of_jobs[job][message.number]
        if passed.is_answered or message.broker not in passed.asked:
            return False
        passed.is_answered = True
        passed.until_s = now_s + GIVE_UP_S
        count = max(0, message.count)
        if count:
            avoid_s = BUSY_S if message.reason is None else UNFIT_S
            self._avoid(job, passed.cluster, now_s + avoid_s, message.reason)
            other = self._peers.known.get(passed.cluster)
            if other is not None and message.reason is None:
                other.lacks(portions_of(passed.entry))
            self._give_back(passed, count, state)
        if not passed.count or is_guest(passed.entry.want):
            self._drop(passed)  # of guests that were started their home tells its own broker
        return count > 0

    def _avoid(self, job: JobId, cluster: str, until_s: float, reason: Reason | None) -> None:
        refused = self._refused_by.pop(job, {})  # it is the last to be forgotten now
        refused[cluster] = (until_s, reason)
        self._refused_by[job] = refused
        if len(self._refused_by) > REFUSALS_MAX:
            del self._refused_by[next(iter(self._refused_by))]

    def review(self, state: BrokerState, now_s: float) -> tuple[list[Send], bool]:
        """Return what is to be sent again, and whether tasks came back."""
        sends, has_come_back = [], False
        for passed in [each for of_job in self._of_jobs.values() for each in of_job.values()]:
            if passed.until_s <= now_s:
                other = self._peers.known.get(passed.cluster)
                if other is not None and not passed.is_answered:
                    other.capacities.clear()  # its broker seems to be offline
                self._give_back(passed, passed.count, state)
                self._drop(passed)
                has_come_back = True
            elif not passed.is_answered and passed.sent_s + RESEND_S <= now_s:
                passed.sent_s = now_s
                sends += self._send(passed)
        self.next_s = min(
            (each.next_s for of_job in self._of_jobs.values() for each in of_job.values()),
            default=inf,
        )
        return sends, has_come_back

    def _give_back(self, passed: ForwardedBatch, count: int, state: BrokerState) -> None:
        count = min(count, passed.count)
        passed.count -= count
        if not passed.is_copy:
            for _ in range(count):
                state.queues.give_back(passed.entry)

    def _drop(self, passed: ForwardedBatch) -> None:
        job, number = passed.forward.want.job, passed.forward.number
        del self._jobs[number]
        of_job = self._of_jobs[job]
        del of_job[number]
        if not of_job:
            del self._of_jobs[job]
        if not self._jobs:
            self.next_s = inf

    # --- passing on ------------------------------------------------------------------------------

    def choose(
        self, state: BrokerState, guests: ForwardedJobs, rng: Random, now: Instant
    ) -> tuple[list[Send], bool]:
        """After a pass: what waits is passed on to where there is room, in the order of the draw.

        In proportion to the room; it is counted down at once. And whether there may be more, that
        is for another turn.
        """
        self.retry_s = inf
        if not self._is_capacity_for_any(state):
            return [], False
        sends: list[Send] = []
        left = TASKS_MAX
        waiting = chain(in_order(state, rng, now), _aside(state))
        for entry in islice(waiting, LOOKS_MAX):
            for other, count in self._split(entry, left, state, guests, rng, now.steady_s):
                left -= count
                sends += self._forward(entry, other, count, state, guests, now)
            if left <= 0 or not any(other.capacities for other in self._peers.known.values()):
                break
        return sends, left <= 0

    def _is_capacity_for_any(self, state: BrokerState) -> bool:
        """Return whether any that waits may find a place, before what waits is put in order."""
        kinds = state.queues.classes
        tasks = dict.fromkeys(Portions.of(kind.key.resources, kind.key.shape) for kind in kinds)
        return any(other.fits(task) for other in self._peers.known.values() for task in tasks)

    def _split(
        self,
        entry: QueuedJob,
        count_max: int,
        state: BrokerState,
        guests: ForwardedJobs,
        rng: Random,
        now_s: float,
    ) -> list[tuple[PeerCluster, int]]:
        """How many of its tasks go where."""
        if entry.want.reservation is not None:
            return []  # its machines are here
        job, task = entry.want.job, portions_of(entry)
        others = self._open_to(entry, guests, now_s)
        fits = [other.fits(task) for other in others]
        count = min(count_max, entry.count, sum(fits))
        if count <= 0 or not state.running_cap(entry).allowed:
            return []
        if _is_head(state, job):
            count = 1 if entry.count == 1 else min(count, entry.count - 1)
        shares = proportional(fits, count, rng)
        return [(other, share) for other, share in zip(others, shares, strict=True) if share]

    def _open_to(self, entry: QueuedJob, guests: ForwardedJobs, now_s: float) -> list[PeerCluster]:
        """Clusters to which tasks of the job may be passed on now."""
        job = entry.want.job
        origin = ""
        if is_guest(entry.want):
            guest = guests.open.get(job)
            if guest is None or guest.forward.hops >= HOPS_MAX:
                return []
            origin = guest.forward.cluster
        refused = self._refused_by.get(job, {})
        there = self.clusters_of(job)
        others = []
        for other in self._peers.known.values():
            if other.capacities and other.cluster != origin and other.cluster not in there:
                until_s, _ = refused.get(other.cluster, (-inf, None))
                if until_s <= now_s:
                    others.append(other)
                elif other.fits(portions_of(entry)):
                    self.retry_s = min(self.retry_s, until_s)
        return others

    def _forward(
        self,
        entry: QueuedJob,
        other: PeerCluster,
        count: int,
        state: BrokerState,
        guests: ForwardedJobs,
        now: Instant,
    ) -> list[Send]:
        want = entry.want
        other.reserve(portions_of(entry), count)
        self._number = max(self._number + 1, int(now.wall_s * 1000.0))
        guest = guests.open.get(want.job)
        hops = 1 if guest is None else guest.forward.hops + 1
        told = forwarded_want(want, entry, count, now)
        cluster = self._peers.own
        forward = Forward(self._machine, self._number, cluster, hops, told)
        is_copy = count == entry.count and _is_head(state, want.job)
        until_s = now.steady_s + GIVE_UP_S
        passed = ForwardedBatch(
            entry, forward, other.cluster, now.steady_s, until_s, is_copy, count
        )
        if not passed.is_copy:
            for _ in range(count):
                state.queues.task_matched(entry)
        self.next_s = min(self.next_s, passed.next_s)
        self._of_jobs.setdefault(want.job, {})[self._number] = passed
        self._jobs[self._number] = want.job
        return self._send(passed)

    def _send(self, passed: ForwardedBatch) -> list[Send]:
        other = self._peers.known.get(passed.cluster)
        if other is None or not other.broker:
            return []
        passed.asked.add(other.broker)
        return [Send(self._peers.summary(other), Part.BROKER, passed.forward)]


def portions_of(entry: QueuedJob) -> Portions:
    """Return what one task of an entry takes."""
    return Portions.of(entry.want.resources, entry.want.shape)


def proportional(fits: list[int], count: int, rng: Random) -> list[int]:
    """Divide `count`, above 0, in proportion to `fits`, whose sum is no less; draw for the rest.

    So many brokers that see the same free capacity do not all choose the largest.
    """
    total = sum(fits)
    shares = [fit * count // total for fit in fits]
    for _ in range(count - sum(shares)):
        left = [fit - share for fit, share in zip(fits, shares, strict=True)]
        ends = list(accumulate(left))
        shares[bisect_right(ends, int(rng.random() * ends[-1]))] += 1
    return shares


def forwarded_want(want: Want, entry: QueuedJob, count: int, now: Instant) -> Want:
    """Return the request as it is sent to another broker."""
    waited_s = max(want.waited_s, now.steady_s - entry.precedence.queued_at_s)
    return Want(**(unpromised(want) | {"waited_s": waited_s, "count": count}))


def _is_head(state: BrokerState, job: JobId) -> bool:
    return job in state.heads.by_job or any(head.job == job for head in state.reserved.values())


def _aside(state: BrokerState) -> Iterator[QueuedJob]:
    """Yield entries that no machine here could ever run; lines may end meanwhile.

    Not those of stopped queues, which no cluster is to start.
    """
    kinds = [kind for kind in state.queues.classes if not (kind.is_possible or kind.key.is_stopped)]
    places = (place for kind in kinds for line in kind.lines for place in line.heap)
    for job in [precedence.job for precedence in islice(places, LOOKS_MAX)]:
        entry = state.queues.entries.get(job)
        if entry is not None and not entry.kind.is_possible:
            yield entry
