"""What a turn leaves behind of jobs: their changes as events, and which of them finished."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from iriai.home.job import JobState
from iriai.model.instant import Instant
from iriai.model.reason import Reason
from iriai.model.records import Attempted, Change, Ended, JobEvent, JobFinished, NoticeDue, Started
from iriai.model.state import EndCause
from iriai.protocol.messages.effects import Persist

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
        """Whether anything changed."""
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

    def drain(self) -> Iterator[tuple[int, list[Change]]]:
        """Each job with its changes; forgets them."""
        for number in (*self._attempted, *self._started, *self._ended):
            self._close(number)
        jobs, self._jobs = self._jobs, {}
        yield from jobs.items()

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

    def drain(self, now: Instant) -> Iterator[Persist]:
        """The records of the turn: an event for each job and run of like changes; then ends."""
        if self.changes:
            for number, changes in self.changes.drain():
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
