"""Completion of a task: its job may be over, and dependent jobs may start."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping

from iriai.home.dependencies import TOLD_MAX, DependentJob, Dependents
from iriai.home.job import JobState, TaskEnd
from iriai.home.job_lookup import EndsMet
from iriai.home.request_publisher import RequestPublisher
from iriai.model.instant import Instant
from iriai.model.reason import Reason
from iriai.model.records import (
    Attempted,
    Change,
    DependencyFailed,
    DependencyMet,
    Ended,
    JobEvent,
    JobFinished,
    NoticeDue,
    Started,
)
from iriai.model.state import EndCause, TaskState
from iriai.protocol.messages.effects import Effect, JobCompleted, Persist

_EndedTask = tuple[int, int, EndCause, int | None, int | None]


class EventBatch:
    """The changes of one turn, gathered so that an array costs events by turns and not by tasks.

    By job, in the order in which they happened; neighbours of one kind are one.
    """

    def __init__(self) -> None:
        self._jobs: dict[int, list[Change]] = {}
        self._attempted: dict[int, tuple[str, list[tuple[int, int]]]] = {}
        self._started: dict[int, list[tuple[int, int]]] = {}
        self._ended: dict[int, list[_EndedTask]] = {}
        self._refusals: dict[int, dict[Reason, None]] = {}

    def __bool__(self) -> bool:
        """Return whether anything changed."""
        return bool(self._jobs or self._attempted or self._started or self._ended)

    def other(self, number: int, change: Change) -> None:
        """A change of a kind that is not gathered."""
        self._close(number)
        self._jobs.setdefault(number, []).append(change)

    def attempted(self, number: int, index: int, attempt: int, machine: str) -> None:
        """A task got an attempt on `machine`."""
        current = self._attempted.get(number)
        if current is not None and current[0] == machine:
            current[1].append((index, attempt))
            return
        self._close(number)
        self._attempted[number] = (machine, [(index, attempt)])

    def started(self, number: int, index: int, attempt: int) -> None:
        """An attempt's process runs."""
        current = self._started.get(number)
        if current is None:
            self._close(number)
            current = self._started[number] = []
        current.append((index, attempt))

    def ended(self, number: int, end: _EndedTask, refusal: Reason | None = None) -> None:
        """An attempt ended; `refusal` is why it was refused, if it was."""
        current = self._ended.get(number)
        if current is None:
            self._close(number)
            current = self._ended[number] = []
        current.append(end)
        if refusal is not None:
            self._refusals.setdefault(number, {})[refusal] = None

    def drain(self) -> dict[int, list[Change]]:
        """Return each job with its changes, and forget them."""
        for number in (*self._attempted, *self._started, *self._ended):
            self._close(number)
        jobs, self._jobs = self._jobs, {}
        return jobs

    def _close(self, number: int) -> None:
        """End the run of like changes that is open for a job; at most one is."""
        change: Change
        if (attempted := self._attempted.pop(number, None)) is not None:
            change = Attempted(tuple(attempted[1]), attempted[0])
        elif (started := self._started.pop(number, None)) is not None:
            change = Started(tuple(started))
        elif (ended := self._ended.pop(number, None)) is not None:
            change = Ended(tuple(ended), tuple(self._refusals.pop(number, ())))
        else:
            return
        self._jobs.setdefault(number, []).append(change)


EVENTS_MAX = 512
"""Events of a job that are kept before they are folded into one: bounds what a restart replays."""


class EventLog:
    """Lives as long as the home; `drain` ends a turn."""

    def __init__(self, jobs: Mapping[int, JobState]) -> None:
        self._jobs = jobs
        self.changes = EventBatch()
        """Of this turn."""
        self._finished: dict[int, JobState] = {}
        """Those that ended in this turn, until they are recorded."""
        self._folded_at: dict[int, int] = {}
        """The sequence of the event into which those before it were folded, by job."""

    def restored(self, number: int, first_sequence: int) -> None:
        """A job was found in the store; its first event there is that one."""
        self._folded_at[number] = first_sequence

    def finished(self, job: JobState) -> None:
        """The last task of a job has ended."""
        self._folded_at.pop(job.number, None)
        self._finished[job.number] = job

    def drain(self, now: Instant) -> list[Persist]:
        """The records of the turn: an event for each job and run of like changes; then ends."""
        records: list[Persist] = []
        if self.changes:
            for number, changes in self.changes.drain().items():
                records += self._events(number, changes, now)
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
        for change in changes:
            yield self._event(job, change, now)
        if job.sequence - self._folded_at.get(number, 0) >= EVENTS_MAX and not job.is_finished:
            yield self._event(job, job.folded(), now)
            self._folded_at[number] = job.sequence

    def _event(self, job: JobState, change: Change, now: Instant) -> Persist:
        job.sequence += 1
        event = JobEvent(job.number, job.sequence, now.wall_s, change, now.cause)
        return Persist(event, urgent=not isinstance(change, Started))


def has_notice(job: JobState) -> bool:
    """Return whether the user of a job that has finished asked for a notice."""
    spec = job.spec
    return bool(spec.notify and job.worst and spec.notify_on.concerns(job.worst.cause))


OUTCOMES_MAX = 20_000
"""Outcomes of finished jobs kept at hand for those who wait; older ones are in the store."""


class RecentOutcomes:
    """Ends of recently finished jobs, for requests before the store must be asked; oldest first."""

    def __init__(self) -> None:
        self.outcomes: OrderedDict[int, TaskEnd] = OrderedDict()
        self._counts: dict[int, tuple[int, int]] = {}
        self._last_outcome: TaskEnd | None = None
        self._last_counts = (0, 0)

    def add(self, job: JobState) -> None:
        """The last task of a job has ended."""
        assert job.worst is not None
        worst = job.worst
        if worst == self._last_outcome:
            worst = self._last_outcome  # many are alike
        self._last_outcome = self.outcomes[job.number] = worst
        succeeded = job.counts.get(EndCause.COMPLETED, 0)
        counts = (succeeded, sum(job.counts.values()) - succeeded)
        if counts == self._last_counts:
            counts = self._last_counts
        self._last_counts = self._counts[job.number] = counts
        if len(self.outcomes) > OUTCOMES_MAX:
            oldest, _ = self.outcomes.popitem(last=False)
            del self._counts[oldest]

    def counts(self, number: int) -> tuple[int, int]:
        """Tasks of a job: (completed, ended in any other way); none of one that is not known."""
        return self._counts.get(number, (0, 0))


class Completion:
    """Lives as long as the home."""

    def __init__(
        self,
        jobs: dict[int, JobState],
        posts: RequestPublisher,
        recording: EventLog,
        effects: list[Effect],
    ) -> None:
        """A job that is over is taken out of `jobs`."""
        self._jobs = jobs
        self._requests = posts
        self._log = recording
        self._effects = effects
        self.dependents = Dependents()
        self.finished = RecentOutcomes()
        self._told = 0
        """Jobs that were told in this turn how something ended that they wait for."""

    def end_turn(self) -> None:
        """Let a bounded number of jobs be notified of ends in the next turn."""
        self._told = 0

    def wait(self, job: JobState, met: EndsMet) -> None:
        """A job has new dependencies, some of which are met already."""
        if met:
            self._dependencies_met(job, met)
        self.dependents.add(job.number, job.open_after)

    def task_ended(self, job: JobState, index: int, cause: EndCause) -> None:
        """A task of a job has ended, which may be its last."""
        if job.number in self.dependents:
            self.dependents.ended(job.number, index, cause)
            self._notify_dependents(job)

    def withdrawn(self, job: JobState) -> None:
        """Tasks of a job were cancelled; those that ran will end."""
        self._notify_dependents(job)
        self.finish_if_over(job)

    def notify_due(self) -> None:
        """Tell jobs how something ended that they wait for; what is too much waits for a turn."""
        while settled := self.dependents.pop(TOLD_MAX - self._told):
            self._told += len(settled)
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
        self.finished.add(job)
        self._requests.forget(number)
        self._effects.append(JobCompleted(number, has_notice(job)))
        self._log.finished(job)

    def _notify_dependents(self, job: JobState) -> None:
        """Tasks of a job have ended: of those that wait for it some may be due."""
        number = job.number
        if number not in self.dependents:
            return
        for index in self.dependents.tasks(number):
            if job.task_state(index) is TaskState.FINISHED:
                self.dependents.ended(number, index, EndCause.CANCELLED)
        if job.spoilt_by is not None:
            self.dependents.cannot_complete(number, job.spoilt_by)

    def _resolve(self, settled: DependentJob) -> None:
        """Tell one job how something ended that it waits for, if it still does."""
        number, dependency, cause = settled
        job = self._jobs.get(number)
        if job is None or dependency not in job.open_after:
            return
        self._requests.changed(number)
        if dependency.condition.holds(cause):
            self._dependencies_met(job, ((dependency, cause),))
            return
        self.dependents.drop(number, job.open_after)
        failed = DependencyFailed(dependency, cause)
        job.apply(failed)
        self._log.changes.other(number, failed)
        self.withdrawn(job)

    def _dependencies_met(self, job: JobState, met: EndsMet) -> None:
        """Record that some dependencies of a job are met."""
        change = DependencyMet(met)
        job.apply(change)
        self._log.changes.other(job.number, change)
