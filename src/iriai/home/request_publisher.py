"""The requests that a home has sent to the broker, and those it must send.

Each change of a want has a stamp, higher than all before, also those before a restart; a want that
is repeated without a change keeps its stamp (docs/spec/008).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from heapq import nsmallest

from iriai.home.job import JobState
from iriai.model.ids import AttemptId, JobId
from iriai.model.instant import Instant
from iriai.model.policy_terms import JobAction
from iriai.model.reservation import Reservation, live_reservation
from iriai.protocol.messages.scheduling import Capability, HoldTold, Want, Wants, Withdraw

REPEATED_MAX = 64
"""Requests sent again at one refresh without a change; with many jobs, in turn."""
BOUND_MAX = 10_000
"""Matches that are remembered, so that a repeated one binds no second task: more than any home
receives within the ten seconds for which a broker repeats one."""

ToTell = Want | Withdraw | Wants


class RequestPublisher:
    """Requests to the broker, by job number."""

    def __init__(
        self,
        home: str,
        jobs: Mapping[int, JobState],
        reservations: Mapping[int, Reservation],
        policy_may: tuple[JobAction, ...] = (),
    ) -> None:
        """`policy_may`: what a policy may do with the jobs; it is told of held ones then."""
        self._home = home
        self._jobs = jobs
        self._reservations = reservations
        self._policy_may = policy_may
        self._told_held: set[int] = set()
        """Held jobs that the broker knows."""
        self._counts: dict[int, int] = {}
        """The number of ready tasks of each job that the broker knows, if it was sent."""
        self._due: dict[int, None] = {}
        """Jobs that changed."""
        self._again: dict[int, None] = {}
        """Jobs whose wants are sent again unchanged."""
        self._stamp = 0
        self._stamps: dict[int, int] = {}
        self._is_all = bool(policy_may)
        """Whether everything is being sent to a broker."""
        self._next_repeated = 0
        self._bound: OrderedDict[tuple[str, Capability], AttemptId] = OrderedDict()

    # --- due requests ----------------------------------------------------------------------------

    def changed(self, number: int) -> None:
        """Make the request of a job due, because its ready tasks changed."""
        self._due[number] = None

    def resend(self) -> None:
        """Send every request again: the broker is new, or can be reached again."""
        self._counts.clear()
        self._told_held.clear()
        self._due = dict.fromkeys(self._jobs)
        self._is_all = True

    def again(self, numbers: Iterable[int]) -> None:
        """Send these requests again: the broker may not have received them."""
        self._again.update(dict.fromkeys(numbers))

    def refresh(self) -> None:
        """Send some requests again, in turn, after some time without a message."""
        left = (number for number in self._counts if number >= self._next_repeated)
        chosen = nsmallest(REPEATED_MAX, left)
        self._next_repeated = chosen[-1] + 1 if len(chosen) == REPEATED_MAX else 0
        self._due.update(dict.fromkeys(chosen))
        self._is_all = True

    @property
    def due(self) -> Iterable[int]:
        """Return the jobs whose ready tasks changed since requests were sent."""
        return self._due

    @property
    def is_due(self) -> bool:
        """Return whether there are messages to the broker."""
        return bool(self._due or self._again or self._is_all)

    def drain(self, now: Instant) -> list[ToTell]:
        """Return the messages to the broker."""
        told: list[ToTell] = []
        for number in self._due:
            self._publish(number, self._next_stamp(number, now), now, told)
        for number in self._again:
            if number not in self._due:
                stamp = self._stamps.get(number) or self._next_stamp(number, now)
                self._counts.setdefault(number, 1)
                self._publish(number, stamp, now, told)
        self._due.clear()
        self._again.clear()
        if self._is_all:
            self._is_all = False
            told.append(Wants(self._home, self._policy_may))
        return told

    def _publish(self, number: int, stamp: int, now: Instant, told: list[ToTell]) -> None:
        job = self._jobs.get(number)
        ready = job.ready if job else 0
        if job is not None and ready:
            self._counts[number] = ready
            self._told_held.discard(number)
            told.append(self._want(job, ready, stamp, now))
        elif self._policy_may and job is not None and job.held and job.waiting:
            self._counts.pop(number, None)
            self._told_held.add(number)
            told.append(self._want(job, 0, stamp, now))
        elif self._counts.pop(number, 0) or number in self._told_held:
            self._told_held.discard(number)
            told.append(Withdraw(JobId(self._home, number), stamp))
        if job is None:
            self._stamps.pop(number, None)

    def _next_stamp(self, number: int, now: Instant) -> int:
        self._stamp = max(self._stamp + 1, int(now.wall_s * 1000.0))
        self._stamps[number] = self._stamp
        return self._stamp

    def _want(self, job: JobState, ready: int, stamp: int, now: Instant) -> Want:
        spec = job.spec
        promised = job.promised_wall_s
        return Want(
            JobId(self._home, job.number),
            spec.account,
            spec.resources,
            spec.time_limit_s,
            spec.urgency,
            max(0.0, now.wall_s - job.submitted_wall_s),
            ready,
            spec.kill_grace_s,
            min(job.requeued, ready),
            None if promised is None else max(0.0, promised - now.wall_s),
            job.promised_machine,
            spec.exclusive,
            stamp,
            spec.requirements,
            spec.rank,
            user="" if spec.user == spec.account.user else spec.user,
            shape=spec.shape,
            across_pools=spec.across_pools,
            queue=spec.queue,
            reservation=live_reservation(self._reservations, spec.reservation),
            is_evictable=spec.is_evictable,
            held=HoldTold(job.waiting, job.held_by, job.is_operators_hold) if job.held else None,
            comment=job.comment if self._policy_may else "",
        )

    # --- matches ---------------------------------------------------------------------------------

    def bound(
        self, attempt: AttemptId, machine: str, capability: Capability, *, is_own: bool
    ) -> None:
        """Note that a match took a task; `is_own`: this cluster's broker made it and knows."""
        number = attempt.number
        if is_own:
            self._counts[number] = self._counts.get(number, 0) - 1
        else:
            self.changed(number)
        if machine != self._home:  # within a machine no message comes twice
            self._bound[machine, capability] = attempt
            if len(self._bound) > BOUND_MAX:
                self._bound.popitem(last=False)

    def bound_to(self, machine: str, capability: Capability) -> AttemptId | None:
        """Return the attempt that was bound to a match with this capability, or None."""
        return self._bound.get((machine, capability))

    def forget(self, number: int) -> None:
        """Forget a finished job; `drain` withdraws what the broker still knows of it."""
        if not self._counts.get(number):
            self._counts.pop(number, None)
            self._stamps.pop(number, None)
