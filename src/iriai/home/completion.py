"""What follows from the end of a task: its job may be over, and other jobs may wait for it."""

from __future__ import annotations

from collections import OrderedDict

from iriai.home.dependencies import TOLD_MAX, DependentJob, Dependents
from iriai.home.event_log import EventLog, has_notice
from iriai.home.job import JobState, TaskEnd
from iriai.home.job_lookup import EndsMet
from iriai.home.request_publisher import RequestPublisher
from iriai.model.records import DependencyFailed, DependencyMet
from iriai.model.state import EndCause, TaskState
from iriai.protocol.effect_buffer import EffectBuffer
from iriai.protocol.messages.effects import JobSettled

OUTCOMES_MAX = 20_000
"""Outcomes of finished jobs kept at hand for those who wait; older ones are in the store."""


class RecentOutcomes:
    """How jobs ended that finished lately, for who asks before the store must; oldest first."""

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
        outbox: EffectBuffer,
    ) -> None:
        """A job that is over is taken out of `jobs`."""
        self._jobs = jobs
        self._posts = posts
        self._recording = recording
        self._outbox = outbox
        self.dependents = Dependents()
        self.finished = RecentOutcomes()
        self._told = 0
        """Jobs that were told in this turn how something ended that they wait for."""

    def end_turn(self) -> None:
        """In the next turn a bounded number of jobs may be told again."""
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
        """Its last task may have ended."""
        if not job.is_finished:
            return
        assert job.worst is not None
        number = job.number
        del self._jobs[number]
        self.dependents.drop(number, job.open_after)
        self.dependents.ended(number, None, job.worst.cause)
        self.finished.add(job)
        self._posts.forget(number)
        self._outbox.add(JobSettled(number, has_notice(job)))
        self._recording.finished(job)

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
        self._posts.changed(number)
        if dependency.condition.holds(cause):
            self._dependencies_met(job, ((dependency, cause),))
            return
        self.dependents.drop(number, job.open_after)
        failed = DependencyFailed(dependency, cause)
        job.apply(failed)
        self._recording.changes.other(number, failed)
        self.withdrawn(job)

    def _dependencies_met(self, job: JobState, met: EndsMet) -> None:
        """Some of what a job waits for has ended as it should."""
        change = DependencyMet(met)
        job.apply(change)
        self._recording.changes.other(job.number, change)
