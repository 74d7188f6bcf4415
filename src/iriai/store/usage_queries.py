"""Sums over the history."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import ColumnElement, Select, and_, case, exists, func, literal_column, null, select

from iriai.model.state import ATTEMPT_ONLY, EndCause
from iriai.store import schema


class UsageTotal(NamedTuple):
    """Usage of one account, or of one job of it. All attempts count, repeated ones too."""

    group: str
    user: str
    job: int | None
    job_name: str
    """Empty if the sum is over an account."""
    tasks: int
    """Tasks that have ended with an attempt."""
    failed: int
    """Those of `tasks` that did not complete."""
    cpu_s: float
    elapsed_s: float
    charge_s: float
    memory_peak_bytes: int
    """The highest of any attempt."""
    waited_s: float
    """Mean over `tasks`, from submission to the start of the attempt that ended the task."""


def _is_last() -> ColumnElement[bool]:
    """Return the condition that an attempt ended its task: no other one followed."""
    attempt = schema.history
    later = schema.attempts.alias("later")
    repeated = exists().where(
        later.c.job == attempt.c.job,
        later.c.task_index == attempt.c.task_index,
        later.c.attempt > attempt.c.attempt,
    )
    lost_for_now = and_(attempt.c.cause == EndCause.LOST.value, repeated)
    by_rule = attempt.c.cause.in_([cause.value for cause in ATTEMPT_ONLY])
    return ~by_rule & ~lost_for_now


def usage_query(by_job: bool) -> Select[*tuple[object, ...]]:
    """Return the query for rows of `UsageTotal`."""
    history = schema.history
    keys: list[ColumnElement[object]] = [history.c.group_name, history.c.user_name]
    if by_job:
        keys += [history.c.job, history.c.job_name]
    is_last = _is_last()
    is_failed = and_(is_last, history.c.cause != EndCause.COMPLETED.value)
    charge_s = func.sum(history.c.charge_s)
    waited_s = func.avg(case((is_last, history.c.started_wall_s - history.c.submitted_wall_s)))
    return (
        select(
            *keys,
            *(() if by_job else (null(), literal_column("''"))),
            func.sum(case((is_last, 1), else_=0)),
            func.sum(case((is_failed, 1), else_=0)),
            func.sum(history.c.cpu_s),
            func.sum(history.c.elapsed_s),
            charge_s,
            func.max(history.c.memory_peak_bytes),
            func.coalesce(waited_s, 0.0),
        )
        .group_by(*keys)
        .order_by(charge_s.desc(), *keys)
    )


def causes_query(number: int) -> Select[*tuple[object, ...]]:
    """Return the query for (cause, tasks) of one job."""
    history = schema.history
    return (
        select(history.c.cause, func.count())
        .where(history.c.job == number, _is_last())
        .group_by(history.c.cause)
        .order_by(history.c.cause)
    )
