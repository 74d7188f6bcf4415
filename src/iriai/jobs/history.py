"""Answers about finished jobs, from what a store keeps of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

import msgspec

from iriai.home.task_end import BADNESS
from iriai.jobs.outputs import AttemptPlaces
from iriai.jobs.seats import JobSeats, RunningTask, StoredSeats
from iriai.jobs.selection import SelectedJobs
from iriai.jobs.story import StoryBuilder
from iriai.jobs.views import finished_row, job_detail, past_attempt_row
from iriai.model.history import HistoryRow, JobRecord, SeatRow, Selection
from iriai.model.ids import AttemptId, JobId, TaskId
from iriai.model.job import Dependency, JobSpec
from iriai.model.problem import NotFound
from iriai.model.ranks import ONE, SEATS_MAX, SeatPlace
from iriai.model.records import Cancelled, DependencyFailed, ReservationOver
from iriai.model.reservation import over_text
from iriai.model.state import EndCause
from iriai.wire.changes import Story
from iriai.wire.requests import AttemptRow, JobDetail, Jobs, Outcome

ATTEMPTS_SHOWN_MAX = 1000
"""Attempts of one job in an answer; more is a file, not an answer."""
LOG_FILES_MAX = 1000
"""Files of one answer to `Logs`: a client that wants more asks for what follows."""
SEATS_READ_MAX = 2 * SEATS_MAX
"""Seats that are read for it: those of one task at least."""
FINISHED_SHOWN_MAX = 1000
"""Finished jobs of a listing that names no number."""

_encode = msgspec.msgpack.Encoder().encode


class StoredJobs(StoredSeats, Protocol):
    """What a store tells of the jobs of one home; see `store.reading.Reader`."""

    def job(self, number: int) -> JobRecord | None:
        """Return the job of this number, finished or not; None if there is none."""

    def finished_jobs(self, selection: Selection, limit: int) -> list[JobRecord]:
        """Return jobs whose last task has ended, the latest first."""

    def history(self, selection: Selection, limit: int) -> list[HistoryRow]:
        """Return attempts that ended, the latest first."""

    def last_attempts(self, number: int, after_index: int, limit: int) -> list[HistoryRow]:
        """Return the last attempt of each task above `after_index`, by index."""

    def last_seats(self, number: int, after_index: int, limit: int) -> list[SeatRow]:
        """Return the seats of each task's last attempt above `after_index`, by index and rank."""

    def causes(self, number: int) -> dict[EndCause, int]:
        """Return the number of ended tasks of a job by cause, of those that had an attempt."""

    def payload_sizes(self) -> dict[str, int]:
        """Return the size of each stored text in bytes, by digest."""

    def last_deleted(self) -> int:
        """Return the highest number of a deleted job; 0 if none was deleted."""

    def history_from_wall_s(self) -> float | None:
        """Return the time before which history may be deleted; None if nothing was."""


class JobHistory:
    """Answers requests about finished jobs from the store."""

    def __init__(
        self,
        home: str,
        spool: str,
        stored: StoredJobs,
        soon: Callable[[Callable[[], None]], None],
    ) -> None:
        """`soon` schedules a call after the requests that are handled at present."""
        self._home = home
        self._spool = spool
        self._stored = stored
        self._soon = soon
        self._latest: JobRecord | None = None
        """The finished job that was looked at last in this round, since many of its tasks may be
        asked for at once; by the next it may be deleted."""

    def text_bytes(self) -> dict[str, int]:
        """Return the sizes of all stored environments, scripts and inputs, by digest (bytes)."""
        return self._stored.payload_sizes()

    def rows(self, request: Jobs, user: str) -> tuple[msgspec.Raw, ...]:
        """Return finished jobs as encoded rows, the latest first."""
        owner = request.user or (None if request.everyone else user)
        selection = Selection(owner=owner, name=request.name)
        records = self._stored.finished_jobs(selection, request.limit or FINISHED_SHOWN_MAX)
        return tuple(msgspec.Raw(_encode(finished_row(self._home, record))) for record in records)

    def detail(self, selected: SelectedJobs, *, ranks: bool = False) -> JobDetail:
        """Return all details of a finished job; `ranks`: with the seats of its attempts."""
        record = self._record(selected)
        causes = record.all_causes(self._stored.causes(record.number))
        attempts = self.attempts(selected, record.spec, ATTEMPTS_SHOWN_MAX)
        note = self._why_cancelled(record.number) if EndCause.CANCELLED in causes else ""
        row = finished_row(self._home, record)
        seats = self.seats(selected, record.spec, ()) if ranks else []
        return job_detail(row, record.spec, causes, attempts, (), note, seats)

    def spec(self, number: int) -> JobSpec:
        """Return the spec of a job; raise `NotFound`."""
        return self._record(SelectedJobs(JobId(self._home, number))).spec

    def attempts(self, selected: SelectedJobs, spec: JobSpec, limit: int) -> list[AttemptRow]:
        """Return attempts that ended, the latest first."""
        rows = self._history(selected, limit)
        told = [past_attempt_row(spec, self._attempt_id(row), row, self._spool) for row in rows]
        if spec.shape == ONE or not rows:
            return told
        seats = self._seats(selected, spec)
        return [seats.counted(each, row.task_index) for each, row in zip(told, rows, strict=True)]

    def seats(
        self, selected: SelectedJobs, spec: JobSpec, running: Iterable[RunningTask]
    ) -> list[AttemptRow]:
        """Return the seats of the newest attempts, first of those that are `running`."""
        past = self._history(selected, ATTEMPTS_SHOWN_MAX)
        return self._seats(selected, spec).rows(running, past)

    def _seats(self, selected: SelectedJobs, spec: JobSpec) -> JobSeats:
        return JobSeats(self._home, selected.job.number, spec, self._stored, self._spool)

    def last_places(
        self, selected: SelectedJobs, after_index: int
    ) -> tuple[dict[int, AttemptPlaces], int | None]:
        """Return where each ended task's last attempt ran, by index.

        Starts above `after_index`; also returns the last index read, or None if all were read.
        """
        number = selected.job.number
        if len(selected.indices) == 1:
            after_index = selected.indices[0] - 1
        rows = self._stored.last_attempts(number, after_index, LOG_FILES_MAX)
        wanted, is_one = selected.indices, len(selected.indices) == 1
        until = None if is_one or len(rows) < LOG_FILES_MAX else rows[-1].task_index
        seats = self._stored.last_seats(number, after_index, SEATS_READ_MAX) if rows else []
        if len(seats) == SEATS_READ_MAX and not is_one:
            until = seats[-1].task_index - 1  # of the last there may be more
        places: dict[int, list[SeatPlace]] = {}
        for seat in seats:
            places.setdefault(seat.task_index, []).append(SeatPlace(seat.machine, seat.ranks))
        return {
            row.task_index: AttemptPlaces(
                self._attempt_id(row),
                tuple(places.get(row.task_index, (SeatPlace(row.machine, 1),))),
                finished=True,
            )
            for row in rows
            if (until is None or row.task_index <= until)
            and (not wanted or row.task_index in wanted)
        }, until

    def outcome(self, selected: SelectedJobs) -> Outcome:
        """Return the outcome of a job (its worst task) or a task; raise `NotFound`."""
        record = self._record(selected)
        name, cause = str(selected.job), record.cause or EndCause.CANCELLED
        if selected.indices:
            name = str(TaskId(*selected.job, selected.indices[0]))
            rows = self._last_attempts(selected)
        else:
            number = selected.job.number
            rows = self._stored.history(Selection(job=number, cause=cause), ATTEMPTS_SHOWN_MAX)
        worst = max(rows, key=_badness, default=None)
        if worst is None:  # it was cancelled before it had an attempt
            cause = EndCause.CANCELLED if selected.indices else cause
            return Outcome(name, cause, None, None, self._why_cancelled(selected.job.number))
        return Outcome(name, worst.cause, worst.exit_code, worst.signal, worst.message)

    def story(self, selected: SelectedJobs) -> Story:
        """Return the stored events of a job, or of one task of it, as rows for people."""
        record = self._record(selected)
        task = selected.indices[0] if selected.indices else None
        teller = StoryBuilder(self._home, record, self._history(selected, ATTEMPTS_SHOWN_MAX), task)
        name = str(selected.job) if task is None else str(TaskId(*selected.job, task))
        return Story(name, tuple(teller.rows(self._stored.events(record.number))))

    def end_of(self, dependency: Dependency) -> EndCause:
        """Return the end of a job or task that another depends on; raise `NotFound`."""
        indices = () if dependency.task is None else (dependency.task,)
        on = JobId(dependency.home, dependency.number)
        return EndCause(self.outcome(SelectedJobs(on, indices)).cause)

    def _why_cancelled(self, number: int) -> str:
        """Return the last stored cause that ended tasks before their first attempt, or nothing."""
        for event in reversed(self._stored.events(number)):
            match event.change:
                case DependencyFailed(dependency, cause):
                    return dependency.failed_text(cause)
                case ReservationOver(reservation, end):
                    return over_text(reservation, end)
                case Cancelled(_, by):
                    return f"cancelled by {by}"
        return ""

    def _record(self, selected: SelectedJobs) -> JobRecord:
        record = self._latest
        if record is None or record.number != selected.job.number:
            record = self._stored.job(selected.job.number)
            if record is None:
                raise self._unknown(selected.job)
            if record.finished_wall_s is not None:
                self._latest = record
                self._soon(self._forget_latest)
        ranges = record.spec.array
        for index in selected.indices[:1]:
            if not any(f <= index <= last and (index - f) % step == 0 for f, last, step in ranges):
                raise NotFound("no-such-task", f"{selected.job} has no task {index}")
        return record

    def _forget_latest(self) -> None:
        self._latest = None

    def _unknown(self, job: JobId) -> NotFound:
        is_gone = 0 < job.number <= self._stored.last_deleted()
        if is_gone and self._stored.history_from_wall_s() is not None:
            return NotFound(
                "beyond-retention",
                f"{job} is no longer stored",
                "finished jobs are deleted after keep_history_s and beyond keep_jobs, set in "
                "[jobs]",
            )
        hint = "list them with iriai jobs --finished"
        return NotFound("no-such-job", f"there is no job {job}", hint)

    def _history(self, selected: SelectedJobs, limit: int) -> list[HistoryRow]:
        index = selected.indices[0] if len(selected.indices) == 1 else None
        rows = self._stored.history(Selection(job=selected.job.number, task_index=index), limit)
        if len(selected.indices) > 1:
            rows = [row for row in rows if row.task_index in selected.indices]
        return rows

    def _last_attempts(self, selected: SelectedJobs) -> list[HistoryRow]:
        """Return the last attempt of each task, by index."""
        latest: dict[int, HistoryRow] = {}
        for row in self._history(selected, ATTEMPTS_SHOWN_MAX):
            known = latest.get(row.task_index)
            if known is None or known.attempt < row.attempt:
                latest[row.task_index] = row
        return [row for _, row in sorted(latest.items())]

    def _attempt_id(self, row: HistoryRow) -> AttemptId:
        return AttemptId(self._home, row.job, row.task_index, row.attempt)


def _badness(row: HistoryRow) -> tuple[int, int, int]:
    return (BADNESS.get(row.cause, -1), row.exit_code or row.signal or 0, row.attempt)
