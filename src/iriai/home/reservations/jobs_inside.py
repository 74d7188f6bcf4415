"""The jobs that were submitted into reservations of this home."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime

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

    def of(self, number: int) -> list[int]:
        """Return the jobs of a reservation that have not finished.

        This goes over all jobs, so it is too slow for each turn.
        """
        return [
            job.number
            for job in self._jobs.values()
            if job.spec.reservation is not None and job.spec.reservation.number == number
        ]

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
