"""The jobs that were submitted into reservations of this home."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from math import inf

from iriai.home.completion import Completion, EventLog
from iriai.home.job import JobState
from iriai.home.reservations.use_inside import UseInside
from iriai.model.ids import AttemptId, ReservationId
from iriai.model.instant import Instant
from iriai.model.job import JobSpec
from iriai.model.reason import Reason, Rule
from iriai.model.records import ReservationOver
from iriai.model.reservation import Reservation, ReservationState, live_reservation
from iriai.model.state import TaskState
from iriai.protocol.messages.scheduling import SeatOffer

AGAIN_S = 1.0
"""After which a request is made again that was matched with machines outside its reservation. A
broker may know no better for a moment; at once, it would be asked without end."""

MISSING_MAX = 4
"""Lost nodes that are named of those that a reservation lacks: as many as a person reads."""


def explain_unopened(reservations: Mapping[int, Reservation], spec: JobSpec) -> list[Reason]:
    """Return why tasks of a job cannot start in its reservation; empty: it is open, or over."""
    wanted = spec.reservation
    reservation = None if wanted is None else reservations.get(wanted.number)
    if wanted is None or reservation is None or reservation.state is ReservationState.OVER:
        return []
    reasons, terms = [], reservation.terms
    if not terms.admits(spec.user, spec.account):
        needed = f"a reservation for {spec.user}, who submitted it for {spec.account}"
        had = f"{wanted} is not any more: ask {terms.user} to admit {spec.user} again"
        reasons.append(Reason(Rule.NOT_RESERVED, needed, had))
    if reservation.state is not ReservationState.OPEN:
        moment = datetime.fromtimestamp(terms.start_wall_s, UTC)
        opens = f"its reservation {wanted} to open, at {moment:%Y-%m-%d %H:%M:%S} UTC"
        reasons.append(Reason(Rule.NOT_RESERVED, opens, f"it is {reservation.state}"))
        reasons += explain_degraded(reservations, spec)
    return reasons


def explain_degraded(reservations: Mapping[int, Reservation], spec: JobSpec) -> list[Reason]:
    """Return what nodes the reservation of a job lacks, beside what its broker says of others."""
    wanted = spec.reservation
    reservation = None if wanted is None else reservations.get(wanted.number)
    if reservation is None or not reservation.is_degraded:
        return []
    missing = reservation.missing
    names = ", ".join(missing[:MISSING_MAX]) + ("..." if len(missing) > MISSING_MAX else "")
    needed = f"all {len(reservation.nodes)} nodes of {wanted}"
    return [Reason(Rule.NOT_RESERVED, needed, f"it lacks {names}; others are sought")]


class JobsInside:
    """Withdraws what waits for a reservation that is over."""

    def __init__(
        self,
        home: str,
        reservations: Mapping[int, Reservation],
        jobs: Mapping[int, JobState],
        log: EventLog,
        completion: Completion,
        use: UseInside,
        started_wall_s: Callable[[AttemptId], float | None],
    ) -> None:
        """`started_wall_s`: when the process of an attempt began; None: it is not known to run."""
        self._home = home
        self._reservations = reservations
        self._jobs = jobs
        self._log = log
        self._completion = completion
        self._use = use
        self._started_wall_s = started_wall_s
        self._by_reservation: dict[int, list[int]] = {}
        """The jobs of each reservation that is not over, by number; some may have finished."""
        self._again_s: dict[int, float] = {}
        """When the requests of jobs are to be made again."""
        for job in jobs.values():
            if live_reservation(reservations, job.spec.reservation) is not None:
                self.submitted(job)

    def submitted(self, job: JobState) -> None:
        """Note a job that has a reservation."""
        wanted = job.spec.reservation
        assert wanted is not None, "it was submitted into one"
        self._by_reservation.setdefault(wanted.number, []).append(job.number)

    def of(self, number: int) -> list[int]:
        """Return the jobs of a reservation that is not over which have not finished."""
        return [job for job in self._by_reservation.get(number, ()) if job in self._jobs]

    def ended(self, number: int) -> list[int]:
        """Return the same of a reservation that is over by now."""
        jobs = self.of(number)
        self._by_reservation.pop(number, None)
        return jobs

    def is_outside(self, job: JobState, seats: Iterable[SeatOffer], now: Instant) -> bool:
        """Return whether a job was matched with machines that do not have its reservation.

        Its request is then made again, a little later: the broker may know an earlier version.
        """
        wanted = live_reservation(self._reservations, job.spec.reservation)
        if wanted is None:
            return False
        reservation = self._reservations[wanted.number]
        having = frozenset((*reservation.nodes, *reservation.unanswered))
        is_outside = any(seat.machine not in having for seat in seats)
        if is_outside:
            self._again_s[job.number] = now.steady_s + AGAIN_S
        return is_outside

    def again(self, now: Instant) -> list[int]:
        """Return the jobs whose requests are to be made again, once."""
        due = [job for job, at_s in self._again_s.items() if at_s <= now.steady_s]
        for job in due:
            del self._again_s[job]
        return due

    @property
    def next_s(self) -> float:
        """Return when a request is to be made again; infinity: never."""
        return min(self._again_s.values(), default=inf)

    def may_use(self, number: int, until_wall_s: float, now: Instant) -> bool:
        """Return whether a task that has a claim may use a reservation, as far as is known.

        It does not if it started after `until_wall_s`, or all its machines told that it idles.
        """
        return any(
            self._may_use(self._jobs[job], index, until_wall_s, now)
            for job in self.of(number)
            for index, task in self._jobs[job].tasks.items()
            if task.state is not TaskState.QUEUED
        )

    def _may_use(self, job: JobState, index: int, until_wall_s: float, now: Instant) -> bool:
        task = job.tasks[index]
        attempt = AttemptId(self._home, job.number, index, task.attempt)
        started_wall_s = self._started_wall_s(attempt)
        if started_wall_s is not None and started_wall_s > until_wall_s:
            return False
        ranks = [rank for rank, _ in task.seats()]
        return not self._use.idles(attempt, ranks, now)

    def withdraw(self, changed: Iterable[int]) -> None:
        """Cancel what waits for reservations that are over, of jobs that changed.

        Or let it wait on without them.
        """
        for number in tuple(changed):
            job = self._jobs.get(number)
            wanted = None if job is None else job.spec.reservation
            if job is None or wanted is None or not (job.waiting or job.spec.or_queue):
                continue
            if live_reservation(self._reservations, wanted) is None:
                self._withdraw(job, wanted)

    def _withdraw(self, job: JobState, wanted: ReservationId) -> None:
        reservation = self._reservations.get(wanted.number)
        end = None if reservation is None else reservation.end
        if not job.spec.or_queue:
            self._completion.dependents.drop(job.number, job.open_after)
        self._log.apply(job, ReservationOver(wanted, end))
        self._completion.withdrawn(job)
