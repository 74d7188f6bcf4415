"""Handlers of requests about finished jobs, from the store."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from iriai.daemon.requests.jobs.selection import SelectedJobs
from iriai.daemon.requests.jobs.story import StoryBuilder
from iriai.daemon.requests.jobs.submission import output_paths
from iriai.daemon.requests.jobs.views import job_detail, log_file
from iriai.home.job import BADNESS
from iriai.model.ids import AttemptId, JobId, TaskId
from iriai.model.job import Dependency, JobSpec, task_count
from iriai.model.problem import NotFound, UsageProblem
from iriai.model.records import Cancelled, DependencyFailed
from iriai.model.state import EndCause, TaskState
from iriai.store.reading import HistoryRow, JobRecord, Reader, Selection
from iriai.wire.changes import Story
from iriai.wire.reports import UsageRow
from iriai.wire.requests import AttemptRow, JobDetail, JobRow, Jobs, LogFile, Outcome

ATTEMPTS_SHOWN_MAX = 1000
"""Attempts of one job in an answer; more is a file, not an answer."""
LOG_FILES_MAX = 1000
"""Tasks of one answer to `Logs`: a client that wants more asks for what follows."""
FINISHED_SHOWN_MAX = 1000
"""Finished jobs of a listing that names no number."""
_USAGE_BY = ("account", "job")

_encode = msgspec.msgpack.Encoder().encode


class JobHistory:
    """Answers requests about finished jobs from the store."""

    def __init__(
        self,
        home: str,
        spool: str,
        reader: Reader,
        soon: Callable[[Callable[[], None]], None],
    ) -> None:
        """`soon` schedules a call at the end of this round of the event loop."""
        self._home = home
        self._spool = spool
        self._reader = reader
        self._soon = soon
        self._latest: JobRecord | None = None
        """The finished job that was looked at last in this round, since many of its tasks may be
        asked for at once; by the next it may be deleted."""

    def text_bytes(self) -> dict[str, int]:
        """Return the sizes of all stored environments, scripts and inputs, by digest (bytes)."""
        return self._reader.payload_sizes()

    def rows(self, request: Jobs, user: str) -> tuple[msgspec.Raw, ...]:
        """Return finished jobs as encoded rows, the latest first."""
        owner = request.user or (None if request.everyone else user)
        selection = Selection(owner=owner, name=request.name)
        records = self._reader.finished_jobs(selection, request.limit or FINISHED_SHOWN_MAX)
        return tuple(msgspec.Raw(_encode(self._row(record))) for record in records)

    def detail(self, selected: SelectedJobs) -> JobDetail:
        """Return all details of a finished job."""
        record = self._record(selected)
        causes = self._reader.causes(record.number)
        never_started = task_count(record.spec.array) - sum(causes.values())
        if never_started > 0:
            causes[EndCause.CANCELLED] = causes.get(EndCause.CANCELLED, 0) + never_started
        attempts = self.attempts(selected, record.spec, ATTEMPTS_SHOWN_MAX)
        note = self._why_cancelled(record.number) if EndCause.CANCELLED in causes else ""
        return job_detail(self._row(record), record.spec, causes, attempts, (), note)

    def spec(self, number: int) -> JobSpec:
        """Return the spec of a job; raise `NotFound`."""
        return self._record(SelectedJobs(JobId(self._home, number))).spec

    def attempts(self, selected: SelectedJobs, spec: JobSpec, limit: int) -> list[AttemptRow]:
        """Return attempts that ended, the latest first."""
        return [self._attempt(row, spec) for row in self._history(selected, limit)]

    def log_files(
        self, selected: SelectedJobs, spec: JobSpec, after_index: int
    ) -> tuple[dict[int, LogFile], int | None]:
        """Return the output files of each ended task's last attempt, by index.

        Starts above `after_index`; also returns the last index read, or None if all were read.
        """
        number = selected.job.number
        if len(selected.indices) == 1:
            after_index = selected.indices[0] - 1
        rows = self._reader.last_attempts(number, after_index, LOG_FILES_MAX)
        wanted = selected.indices
        files = {
            row.task_index: log_file(
                spec, self._attempt_id(row), self._spool, row.machine, finished=True
            )
            for row in rows
            if not wanted or row.task_index in wanted
        }
        is_all = len(rows) < LOG_FILES_MAX or len(selected.indices) == 1
        return files, None if is_all else rows[-1].task_index

    def outcome(self, selected: SelectedJobs) -> Outcome:
        """Return the outcome of a job (its worst task) or a task; raise `NotFound`."""
        record = self._record(selected)
        name, cause = str(selected.job), record.cause or EndCause.CANCELLED
        if selected.indices:
            name = str(TaskId(*selected.job, selected.indices[0]))
            rows = self._last_attempts(selected)
        else:
            number = selected.job.number
            rows = self._reader.history(Selection(job=number, cause=cause), ATTEMPTS_SHOWN_MAX)
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
        return Story(name, tuple(teller.rows(self._reader.events(record.number))))

    def end_of(self, dependency: Dependency) -> EndCause:
        """Return the end of a job or task that another depends on; raise `NotFound`."""
        indices = () if dependency.task is None else (dependency.task,)
        on = JobId(dependency.home, dependency.number)
        return EndCause(self.outcome(SelectedJobs(on, indices)).cause)

    def usage(self, since_wall_s: float, owner: str | None, by: str) -> tuple[UsageRow, ...]:
        """Return the usage since a time, summed by account or job."""
        if by not in _USAGE_BY:
            raise UsageProblem("bad-sum", f"'{by}' is not one of {', '.join(_USAGE_BY)}")
        selection = Selection(owner=owner, since_wall_s=since_wall_s)
        return tuple(
            UsageRow(
                row.group,
                row.user,
                "" if row.job is None else str(JobId(self._home, row.job)),
                row.tasks,
                row.failed,
                row.cpu_s,
                row.elapsed_s,
                row.charge_s,
                row.memory_peak_bytes,
                row.waited_s,
            )
            for row in self._reader.usage(selection, by_job=by == "job")
        )

    def _why_cancelled(self, number: int) -> str:
        """Return the last stored cause that ended tasks before their first attempt, or nothing."""
        for event in reversed(self._reader.events(number)):
            match event.change:
                case DependencyFailed(dependency, cause):
                    return dependency.failed_text(cause)
                case Cancelled(_, by):
                    return f"cancelled by {by}"
        return ""

    def _record(self, selected: SelectedJobs) -> JobRecord:
        record = self._latest
        if record is None or record.number != selected.job.number:
            record = self._reader.job(selected.job.number)
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
        is_gone = 0 < job.number <= self._reader.last_deleted()
        if is_gone and self.history_from_wall_s() is not None:
            return NotFound(
                "beyond-retention",
                f"{job} is no longer stored",
                "finished jobs are deleted after keep_history_s and beyond keep_jobs, set in "
                "[jobs]",
            )
        hint = "list them with iriai jobs --finished"
        return NotFound("no-such-job", f"there is no job {job}", hint)

    def history_from_wall_s(self) -> float | None:
        """Return the time before which history may be deleted; None if nothing was."""
        return self._reader.history_from_wall_s()

    def _row(self, record: JobRecord) -> JobRow:
        spec, total, succeeded = record.spec, task_count(record.spec.array), record.succeeded or 0
        return JobRow(
            str(JobId(self._home, record.number)),
            spec.name,
            spec.account.group,
            spec.account.user,
            TaskState.FINISHED,
            total,
            0,
            0,
            succeeded,
            total - succeeded,
            record.submitted_wall_s,
            spec.resources.cpus,
            spec.urgency,
            ended_wall_s=record.finished_wall_s,
            cause=record.cause or EndCause.CANCELLED,
        )

    def _history(self, selected: SelectedJobs, limit: int) -> list[HistoryRow]:
        index = selected.indices[0] if len(selected.indices) == 1 else None
        rows = self._reader.history(Selection(job=selected.job.number, task_index=index), limit)
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

    def _attempt(self, row: HistoryRow, spec: JobSpec) -> AttemptRow:
        attempt = self._attempt_id(row)
        output, error = output_paths(spec, attempt, self._spool)
        return AttemptRow(
            str(attempt.task),
            row.attempt,
            row.machine,
            "finished",
            row.cause,
            row.exit_code,
            row.signal,
            row.cpu_s,
            row.memory_peak_bytes,
            row.read_bytes,
            row.written_bytes,
            row.started_wall_s,
            row.ended_wall_s,
            row.elapsed_s,
            row.charge_s,
            row.message,
            output,
            error,
            row.factors,
        )


def _badness(row: HistoryRow) -> tuple[int, int, int]:
    return (BADNESS.get(row.cause, -1), row.exit_code or row.signal or 0, row.attempt)
