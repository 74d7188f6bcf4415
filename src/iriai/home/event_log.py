"""What a turn leaves behind of jobs: their changes as events, and which of them finished."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from iriai.home.event_batch import EventBatch
from iriai.home.job import JobState
from iriai.model.instant import Instant
from iriai.model.records import Change, JobEvent, JobFinished, NoticeDue, Started
from iriai.protocol.messages.effects import Persist

EVENTS_MAX = 512
"""Events of a job that are kept before they are folded into one: bounds what a restart replays."""


class EventLog:
    """Lives as long as the home; `take` ends a turn."""

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

    def take(self, now: Instant) -> Iterator[Persist]:
        """The records of the turn: an event for each job and run of like changes; then ends."""
        if self.changes:
            for number, changes in self.changes.take():
                yield from self._events(number, changes, now)
        for number, job in self._finished.items():
            assert job.worst is not None
            spec = job.spec if job.altered else None
            yield Persist(JobFinished(number, now.wall_s, job.worst.cause, spec))
            if has_notice(job):
                yield Persist(NoticeDue(number))
        self._finished.clear()

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
    """Whether the user of a job that has finished wants to be told."""
    spec = job.spec
    return bool(spec.notify and job.worst and spec.notify_on.concerns(job.worst.cause))
