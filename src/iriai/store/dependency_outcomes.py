"""How those have ended that stored jobs wait for, whatever became of telling them."""

from __future__ import annotations

import sqlite3

from sqlalchemy import select

from iriai.model.snapshot import StoredJob, waited_for
from iriai.model.state import EndCause
from iriai.store import schema
from iriai.store.sqlite import DIALECT

_Target = tuple[int, int | None]


def ended_of(connection: sqlite3.Connection, jobs: list[StoredJob]) -> dict[_Target, EndCause]:
    """The ends, by (job, task or None for all of it), of what `jobs` may wait for.

    A task of a job that has not finished is named also where it waits again after an attempt.
    """
    unfinished = {job.number for job in jobs}
    found: dict[_Target, EndCause] = {}
    for target in dict.fromkeys((each.number, each.task) for each in waited_for(jobs)):
        number, task = target
        if task is None and number in unfinished:
            continue
        row = connection.execute(*_question(number, task)).fetchone()
        if row is not None and row[0] is not None:
            found[target] = EndCause(row[0])
    return found


def _question(number: int, task: int | None) -> tuple[str, tuple[int, ...]]:
    return (_JOB, (number,)) if task is None else (_TASK, (number, task))


_JOB = str(select(schema.jobs.c.cause).where(schema.jobs.c.number == 0).compile(dialect=DIALECT))
_TASK = str(
    select(schema.attempts.c.cause)
    .where(schema.attempts.c.job == 0, schema.attempts.c.task_index == 0)
    .order_by(schema.attempts.c.attempt.desc())
    .compile(dialect=DIALECT)
)
