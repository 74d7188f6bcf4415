"""Views of jobs for clients: lines of a listing, details, places of output."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from iriai.home.active_task import ActiveTask
from iriai.home.job import JobState
from iriai.model.history import HistoryRow, JobRecord, SeatRow, UsageTotal
from iriai.model.ids import AttemptId, JobId
from iriai.model.job import (
    JobSpec,
    expand_pattern,
    task_count,
)
from iriai.model.name_pattern import fits
from iriai.model.ranks import ONE, RankShape
from iriai.model.resources import FIELDS, Resources
from iriai.model.state import EndCause, TaskState
from iriai.model.submission import Interaction, Layout
from iriai.model.suspension import Reasons
from iriai.model.units import format_size
from iriai.wire.reports import UsageRow
from iriai.wire.requests import AttemptRow, JobDetail, JobRow, Jobs, Parallel, Why

_encode = msgspec.msgpack.Encoder().encode


def job_row(home: str, job: JobState) -> JobRow:
    """Return one line of a listing."""
    spec = job.spec
    succeeded = job.counts.get(EndCause.COMPLETED, 0) if job.counts else 0
    return JobRow(
        f"{home}-{job.number}",
        spec.name,
        spec.account.group,
        spec.account.user,
        job_state(job),
        job.total,
        job.waiting,
        job.active,
        succeeded,
        sum(job.counts.values()) - succeeded if job.counts else 0,
        job.submitted_wall_s,
        spec.resources.cpus,
        spec.urgency,
        job.promised_wall_s,
        job.promised_wall_s is not None,
        ranks=ranks_text(spec.shape),
        queue=_queue_of(job),
    )


def _queue_of(job: JobState) -> int:
    """Return the queue of a job: where its only task is now."""
    moved = [task.moved_to for task in job.tasks.values()] if job.total == 1 else []
    return next((queue for queue in moved if queue is not None), job.spec.queue)


def finished_row(home: str, record: JobRecord) -> JobRow:
    """Return one line of a listing of finished jobs."""
    spec, total, succeeded = record.spec, task_count(record.spec.array), record.succeeded or 0
    return JobRow(
        str(JobId(home, record.number)),
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
        ranks=ranks_text(spec.shape),
        queue=spec.queue,
    )


def ranks_text(shape: RankShape) -> str:
    """Return the ranks of a task as clients see them; empty: it has one."""
    return "" if shape == ONE else shape.ranks_text


def job_state(job: JobState) -> str:
    """Return the state of the job's most advanced task that has not finished."""
    states = {task.state for task in job.tasks.values()} if job.tasks else ()
    for state in (TaskState.RUNNING, TaskState.SUSPENDED, TaskState.CLAIMED):
        if state in states:
            return state
    if job.is_finished:
        return TaskState.FINISHED
    return TaskState.HELD if job.held else TaskState.QUEUED


def encoded_row(home: str, job: JobState) -> bytes:
    """Return the encoded line of a listing, made once for each change of the job."""
    if job.listing is None:
        job.listing = _encode(job_row(home, job))
    return job.listing


def is_listed(request: Jobs, job: JobState, user: str) -> bool:
    """Return whether a listing that `user` requested shows an unfinished job."""
    wanted = request.user or (None if request.everyone else user)
    if wanted is not None and wanted not in (job.spec.user, job.spec.account.user):
        return False
    if request.name is not None and not fits(job.spec.name, request.name):
        return False
    return request.state is None or request.state == job_state(job)


def amounts(resources: Resources) -> dict[str, int]:
    """Return resources by name, without zeros."""
    pairs = [*((field, getattr(resources, field)) for field in FIELDS), *resources.named]
    return {name: amount for name, amount in pairs if amount}


def running_row(
    spec: JobSpec,
    attempt: AttemptId,
    task: ActiveTask,
    started_wall_s: float | None,
    spool: str,
    message: str = "",
) -> AttemptRow:
    """Return the row of an attempt with a claim; `message` says why it has not started."""
    how = (task.attempt, task.machine, task.state, "", None, None)
    used, times = (0.0, 0, 0, 0), (started_wall_s, None, 0.0, 0.0)
    places = () if task.parallel is None else task.parallel.places
    ranks = sum(place.ranks for place in places) or 1
    reasons: Reasons = ()
    kept_bytes = 0
    if task.suspension is not None and task.suspension.reasons:
        reasons, text = task.suspension.reasons, task.suspension.text
        kept_bytes = spec.resources.memory_bytes * ranks
        message = message or (f"{text}; keeps {format_size(kept_bytes)}" if kept_bytes else text)
    files = output_paths(spec, attempt, spool, 0 if len(places) > 1 else None)
    return AttemptRow(
        str(attempt.task),
        *how,
        *used,
        *times,
        message,
        *files,
        ranks=ranks,
        seats=len(places) or 1,
        reasons=reasons,
        kept_bytes=kept_bytes,
    )


def past_attempt_row(
    spec: JobSpec, attempt: AttemptId, row: HistoryRow | SeatRow, spool: str
) -> AttemptRow:
    """Return the row of an attempt, or a seat, that has ended."""
    how = (row.attempt, row.machine, "finished", row.cause, row.exit_code, row.signal)
    used = (row.cpu_s, row.memory_peak_bytes, row.read_bytes, row.written_bytes)
    times = (row.started_wall_s, row.ended_wall_s, row.elapsed_s, row.charge_s)
    files = output_paths(spec, attempt, spool)
    return AttemptRow(
        str(attempt.task),
        *how,
        *used,
        *times,
        row.message,
        *files,
        row.factors,
        returned_s=row.returned_s,
    )


def job_detail(
    row: JobRow,
    spec: JobSpec,
    causes: dict[EndCause, int],
    attempts: list[AttemptRow],
    why: tuple[Why, ...],
    note: str = "",
    seats: Iterable[AttemptRow] = (),
    comment: str = "",
) -> JobDetail:
    """Return all details of one job."""
    return JobDetail(
        row,
        str(spec.account),
        spec.command,
        bool(spec.script),
        spec.working_directory,
        amounts(spec.resources),
        spec.time_limit_s,
        spec.max_restarts,
        spec.output,
        spec.error,
        spec.array if spec.is_array else (),
        {str(cause): count for cause, count in causes.items()},
        tuple(attempts),
        why,
        tuple(map(str, spec.after)),
        spec.throttle,
        spec.exclusive,
        note,
        spec.requirements,
        spec.rank,
        _parallel(spec),
        tuple(seats),
        spec.cpu_limit_s,
        spec.no_suspend,
        spec.checkpoint_exit,
        "" if spec.reservation is None else str(spec.reservation),
        spec.or_queue,
        spec.evictable,
        comment,
    )


def _parallel(spec: JobSpec) -> Parallel | None:
    shape = spec.shape
    if shape == ONE and not spec.pipes and spec.bind is None:
        return None
    return Parallel(
        shape.ranks_text,
        shape.nodes,
        shape.per_node,
        spec.across_pools,
        spec.layout,
        spec.keep_going,
        spec.bind,
        spec.pipes,
    )


def output_paths(
    spec: JobSpec, attempt: AttemptId, spool: str, seat: int | None = None
) -> tuple[str, str]:
    """Return the files of standard output and error; the latter is empty if they are one.

    Of a rank, if the attempt has one of a seat; `seat` is the first of that, if there are several.
    """
    if spec.layout is Layout.FIRST:
        if attempt.rank:
            return "", ""
        seat = None
    if spec.interaction is not Interaction.BATCH:
        stem = f"{spool}/{str(attempt).replace('#', '-')}"
        return f"{stem}.out", f"{stem}.err" if spec.interaction is Interaction.STREAM else ""
    return _absolute(spec, spec.output, attempt, seat), _absolute(spec, spec.error, attempt, seat)


def _absolute(spec: JobSpec, pattern: str, attempt: AttemptId, seat: int | None) -> str:
    if not pattern:
        return ""
    name = expand_pattern(pattern, attempt, seat)
    return name if name.startswith("/") else f"{spec.working_directory.rstrip('/')}/{name}"


def usage_rows(home: str, totals: Iterable[UsageTotal]) -> tuple[UsageRow, ...]:
    """Return sums of usage as clients see them."""
    return tuple(
        UsageRow(
            row.group,
            row.user,
            "" if row.job is None else str(JobId(home, row.job)),
            row.tasks,
            row.failed,
            row.cpu_s,
            row.elapsed_s,
            row.charge_s,
            row.memory_peak_bytes,
            row.waited_s,
            row.returned_s,
        )
        for row in totals
    )
