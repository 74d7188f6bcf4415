"""Completion of a task: its job may be over, and dependent jobs may start.

When a job ends, all jobs that wait for it become due at once; a bounded number of them is notified
in each turn. So the end of a job costs the same whether one job waits for it or 200,000 do.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any, NamedTuple

from iriai.home.job import JobOutcome, JobState
from iriai.home.job_lookup import Ends, EndsMet, Target
from iriai.home.request_publisher import RequestPublisher
from iriai.model.instant import Instant
from iriai.model.job import Condition, Dependency
from iriai.model.ranks import SeatPlaces
from iriai.model.records import (
    Attempted,
    Change,
    DependencyFailed,
    DependencyMet,
    Ended,
    JobEvent,
    JobFinished,
    NoticeDue,
    ReasonsTold,
    SeatEnded,
    Started,
)
from iriai.model.state import EndCause, TaskState
from iriai.protocol.messages.effects import Effect, JobCompleted, Persist


def _merged(changes: list[Change]) -> Iterator[Change]:
    """Merge successive changes of one kind, so that an array's events grow with turns."""
    for (kind, machine, seats), run in groupby(changes, _kind_of):
        alike: list[Any] = list(run)
        if kind not in _MERGED or len(alike) == 1:
            yield from alike
            continue
        if kind is SeatEnded:
            yield SeatEnded(tuple(result for each in alike for result in each.results))
            continue
        if kind is ReasonsTold:
            yield ReasonsTold(tuple(seat for each in alike for seat in each.seats))
            continue
        tasks = tuple(task for each in alike for task in each.tasks)
        if kind is Attempted:
            yield Attempted(tasks, machine, seats)
        elif kind is Started:
            yield Started(tasks)
        else:
            yield Ended(tasks, tuple(dict.fromkeys(r for each in alike for r in each.refusals)))


def _kind_of(change: Change) -> tuple[type, str, SeatPlaces]:
    if isinstance(change, Attempted):
        return Attempted, change.machine, change.seats
    return type(change), "", ()


_MERGED = (Attempted, Started, Ended, SeatEnded, ReasonsTold)

EVENTS_MAX = 512
"""Events of a job that are stored before a snapshot replaces them: bounds what a restart replays.
"""


class EventLog:
    """The changes of jobs in the current turn; `drain` ends the turn and returns its records."""

    def __init__(self, jobs: Mapping[int, JobState]) -> None:
        self._jobs = jobs
        self._changes: dict[int, list[Change]] = {}
        """The changes of the turn by job, in order."""
        self._finished: dict[int, JobState] = {}
        """The jobs that finished in this turn, until they are recorded."""
        self._folded_at: dict[int, int] = {}
        """The sequence of the last snapshot, by job."""

    def restored(self, number: int, first_sequence: int) -> None:
        """Note the sequence of the first stored event of a restored job."""
        self._folded_at[number] = first_sequence

    def add(self, number: int, change: Change) -> None:
        """Add a change that the job has applied."""
        self._changes.setdefault(number, []).append(change)

    def apply(self, job: JobState, change: Change) -> None:
        """Apply a change to its job and add it."""
        job.apply(change)
        self.add(job.number, change)

    def finished(self, job: JobState) -> None:
        """Record, at the end of the turn, that the last task of a job ended."""
        self._folded_at.pop(job.number, None)
        self._finished[job.number] = job

    @property
    def has_news(self) -> bool:
        """Return whether `drain` would return something."""
        return bool(self._changes or self._finished)

    def drain(self, now: Instant) -> list[Persist]:
        """Return the records of the turn: merged changes by job, then the jobs that finished."""
        records: list[Persist] = []
        for number, changes in self._changes.items():
            records += self._events(number, changes, now)
        self._changes.clear()
        for number, job in self._finished.items():
            assert job.worst is not None
            spec = job.spec if job.altered else None
            records.append(Persist(JobFinished(number, now.wall_s, job.worst.cause, spec)))
            if has_notice(job):
                records.append(Persist(NoticeDue(number)))
        self._finished.clear()
        return records

    def _events(self, number: int, changes: list[Change], now: Instant) -> Iterator[Persist]:
        job = self._jobs.get(number) or self._finished[number]
        for change in _merged(changes) if len(changes) > 1 else changes:
            yield self._event(job, change, now)
        if job.sequence - self._folded_at.get(number, 0) >= EVENTS_MAX and not job.is_finished:
            yield self._event(job, job.folded(), now)
            self._folded_at[number] = job.sequence

    def _event(self, job: JobState, change: Change, now: Instant) -> Persist:
        job.sequence += 1
        event = JobEvent(job.number, job.sequence, now.wall_s, change, now.cause)
        return Persist(event, urgent=not isinstance(change, Started | ReasonsTold))


def has_notice(job: JobState) -> bool:
    """Return whether the user of a job that has finished asked for a notice."""
    spec = job.spec
    return bool(spec.notify and job.worst and spec.notify_on.concerns(job.worst.cause))


TOLD_MAX = 1000
"""Jobs that are notified of an end within one turn: each is an event and a want, some 20
microseconds together, so that a turn stays below what a client notices."""


class DependentJob(NamedTuple):
    """One job to notify of the end of a target."""

    number: int
    dependency: Dependency
    cause: EndCause


class Dependents:
    """The index from jobs and tasks to the jobs that wait for them."""

    def __init__(self) -> None:
        self._of: dict[int, dict[Dependency, dict[int, None]]] = {}
        self.due: deque[tuple[Dependency, EndCause, Iterator[int]]] = deque()
        """Ended targets, with the dependent jobs that are still to be notified."""

    def __len__(self) -> int:
        """Return how many jobs are depended on."""
        return len(self._of)

    def __contains__(self, number: int) -> bool:
        """Return whether a job depends on this job, or on a task of it."""
        return number in self._of

    def add(self, number: int, dependencies: Iterable[Dependency]) -> None:
        """Add dependencies of the job `number`."""
        for each in dependencies:
            self._of.setdefault(each.number, {}).setdefault(each, {})[number] = None

    def drop(self, number: int, dependencies: Iterable[Dependency]) -> None:
        """Remove dependencies of the job `number`."""
        for each in dependencies:
            of_job = self._of.get(each.number, {})
            waiting = of_job.get(each)
            if waiting is None:  # they are due already, and skipped in their turn
                continue
            waiting.pop(number, None)
            if not waiting:
                del of_job[each]
                if not of_job:
                    del self._of[each.number]

    def targets(self) -> list[Target]:
        """Return all targets of dependencies."""
        found = ((each.number, each.task) for of_job in self._of.values() for each in of_job)
        return list(dict.fromkeys(found))

    def tasks(self, number: int) -> list[int]:
        """Return the tasks of a job on which other jobs depend."""
        tasks = (each.task for each in self._of.get(number, ()))
        return list(dict.fromkeys(task for task in tasks if task is not None))

    def ended(self, number: int, task: int | None, cause: EndCause) -> None:
        """Make the jobs due that depend on an ended job, or on an ended task of it."""
        for each in [each for each in self._of.get(number, ()) if each.task == task]:
            self._make_due(each, cause)

    def cannot_complete(self, number: int, cause: EndCause) -> None:
        """Make the jobs due that require a job to complete which no longer can."""
        for each in [each for each in self._of.get(number, ()) if each.task is None]:
            if each.condition is Condition.OK:
                self._make_due(each, cause)

    def _make_due(self, dependency: Dependency, cause: EndCause) -> None:
        of_job = self._of[dependency.number]
        self.due.append((dependency, cause, iter(of_job.pop(dependency))))
        if not of_job:
            del self._of[dependency.number]

    def pop(self, count: int) -> list[DependentJob]:
        """Return the next `count` due jobs; some of them may no longer wait."""
        taken: list[DependentJob] = []
        while self.due and len(taken) < count:
            dependency, cause, waiting = self.due[0]
            number = next(waiting, None)
            if number is None:
                self.due.popleft()
            else:
                taken.append(DependentJob(number, dependency, cause))
        return taken

    def restore(self, jobs: Mapping[int, JobState], ended: Ends) -> None:
        """Rebuild the index after a restart, and make jobs due that were not yet notified."""
        for job in jobs.values():
            self.add(job.number, job.open_after)
        for number, index in self.targets():
            here = jobs.get(number)
            is_over = here is None or (
                index is not None and here.task_state(index) is TaskState.FINISHED
            )
            if is_over:
                self.ended(number, index, ended.get((number, index), EndCause.CANCELLED))
            elif here is not None and here.spoilt_by is not None:
                self.cannot_complete(number, here.spoilt_by)

    def check(self, jobs: Mapping[int, JobState]) -> None:
        """Raise if a job waits for an end of which it will never be notified."""
        for number, of_job in self._of.items():
            assert number in jobs, f"someone waits for job {number}, which has ended"
            for each, waiting in of_job.items():
                assert waiting, f"nobody waits for {each}"
                for dependent in waiting:
                    assert each in jobs[dependent].open_after, f"{dependent} has forgotten {each}"
        if self.due:
            return
        for number, job in jobs.items():
            for each in job.open_after:
                assert number in self._of.get(each.number, {}).get(each, ()), f"{number}: {each}"


OUTCOMES_MAX = 20_000
"""Outcomes of finished jobs kept in memory for clients that wait; older ones are in the store."""


class Completion:
    """Finishes jobs whose last task ended, and notifies the jobs that depend on them."""

    def __init__(
        self,
        jobs: dict[int, JobState],
        requests: RequestPublisher,
        log: EventLog,
        effects: list[Effect],
    ) -> None:
        """Finished jobs are removed from `jobs`."""
        self._jobs = jobs
        self._requests = requests
        self._log = log
        self._effects = effects
        self.dependents = Dependents()
        self.outcomes: OrderedDict[int, JobOutcome] = OrderedDict()
        """The outcomes of recently finished jobs by number, oldest first."""
        self._last_outcome: JobOutcome | None = None
        self.notified = 0
        """Jobs notified of ends in this turn: a bounded number, the others in the next."""
        """The number of jobs that were notified of an end in this turn."""

    def wait(self, job: JobState, met: EndsMet) -> None:
        """Add the dependencies of a job; `met` are those that hold already."""
        if met:
            self._log.apply(job, DependencyMet(met))
        self.dependents.add(job.number, job.open_after)

    def task_ended(self, job: JobState, index: int, cause: EndCause) -> None:
        """Notify the jobs that depend on a task that ended."""
        if job.number in self.dependents:
            self.dependents.ended(job.number, index, cause)
            self._notify_dependents(job)

    def withdrawn(self, job: JobState) -> None:
        """Notify dependent jobs after tasks were cancelled, and finish the job if none runs."""
        self._notify_dependents(job)
        self.finish_if_over(job)

    def notify_due(self) -> None:
        """Notify the jobs that are due; those beyond the turn's limit wait for the next turn."""
        while settled := self.dependents.pop(TOLD_MAX - self.notified):
            self.notified += len(settled)
            for each in settled:
                self._resolve(each)

    def finish_if_over(self, job: JobState) -> None:
        """Finish the job if its last task has ended."""
        if not job.is_finished:
            return
        assert job.worst is not None
        number = job.number
        del self._jobs[number]
        self.dependents.drop(number, job.open_after)
        self.dependents.ended(number, None, job.worst.cause)
        completed = job.counts.get(EndCause.COMPLETED, 0)
        outcome = JobOutcome(job.worst, completed, sum(job.counts.values()) - completed)
        if outcome == self._last_outcome:
            outcome = self._last_outcome  # many are equal: they share memory
        self._last_outcome = self.outcomes[number] = outcome
        if len(self.outcomes) > OUTCOMES_MAX:
            self.outcomes.popitem(last=False)
        self._requests.forget(number)
        self._effects.append(JobCompleted(number, has_notice(job)))
        self._log.finished(job)

    def _notify_dependents(self, job: JobState) -> None:
        """Mark the jobs as due that depend on ended tasks of a job."""
        number = job.number
        if number not in self.dependents:
            return
        for index in self.dependents.tasks(number):
            if job.task_state(index) is TaskState.FINISHED:
                self.dependents.ended(number, index, EndCause.CANCELLED)
        if job.spoilt_by is not None:
            self.dependents.cannot_complete(number, job.spoilt_by)

    def _resolve(self, settled: DependentJob) -> None:
        """Resolve one dependency of a job, if the job still has it."""
        number, dependency, cause = settled
        job = self._jobs.get(number)
        if job is None or dependency not in job.open_after:
            return
        self._requests.changed(number)
        if dependency.condition.holds(cause):
            self._log.apply(job, DependencyMet(((dependency, cause),)))
            return
        self.dependents.drop(number, job.open_after)
        self._log.apply(job, DependencyFailed(dependency, cause))
        self.withdrawn(job)
