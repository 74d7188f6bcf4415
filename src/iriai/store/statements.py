"""The statements that write, ready for many rows at a time.

Each step into SQLite gives up Python's lock, and getting it back from a busy thread costs up to a
switch interval. One statement for 32 rows instead of 32 for one row makes that bearable, and is
faster by itself.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from itertools import chain

from sqlalchemy import (
    CTE,
    BindParameter,
    ColumnElement,
    Float,
    Integer,
    LargeBinary,
    String,
    Table,
    bindparam,
    column,
    delete,
    func,
    literal_column,
    select,
    update,
    values,
)
from sqlalchemy.sql import ClauseElement

from iriai.model.state import EndCause
from iriai.store import schema
from iriai.store.sqlite import DIALECT, Insert, insert

Row = Sequence[object]
"""Values in the order of the statement's parameters."""

CHUNKS = (32, 16, 8, 4, 2, 1)
"""Rows in one statement. Larger ones gain nothing measurable and cost memory, for each is kept
prepared; powers of two fill any number with few."""


class BulkStatement:
    """One statement that takes any number of rows.

    Made from a statement for one row, in which the row stands as one group of parameters.
    """

    def __init__(self, statement: ClauseElement) -> None:
        compiled = statement.compile(dialect=DIALECT)
        self._text = str(compiled)
        self._width = len(compiled.params)
        self._group = f"({', '.join('?' * self._width)})"
        assert self._text.count(self._group) == 1, self._text
        self._texts: dict[int, str] = {}

    def run(self, cursor: sqlite3.Cursor, rows: Sequence[Row], *, one_by_one: bool = False) -> None:
        """Execute the statement for `rows`, in order.

        Each prepared statement keeps the rows that it was given last; `one_by_one`: only one row.
        """
        start = 0
        for size in (1,) if one_by_one else CHUNKS:
            while len(rows) - start >= size:
                chunk = rows[start : start + size]
                cursor.execute(self._of_size(size), tuple(chain.from_iterable(chunk)))
                start += size

    def _of_size(self, size: int) -> str:
        text = self._texts.get(size)
        if text is None:
            groups = ", ".join([self._group] * size)
            text = self._texts[size] = self._text.replace(self._group, groups)
        return text


def insertion(table: Table) -> BulkStatement:
    """Insert rows that are not there yet."""
    return BulkStatement(_insert(table))


def insertion_of_missing(table: Table) -> BulkStatement:
    """Insert rows, but leave those alone that are there."""
    return BulkStatement(_insert(table).on_conflict_do_nothing())


def replacement(table: Table) -> BulkStatement:
    """Insert rows, or give those that are there their new values."""
    statement = _insert(table)
    keys = [column.name for column in table.primary_key]
    changed = {c.name: statement.excluded[c.name] for c in table.columns if c.name not in keys}
    return BulkStatement(statement.on_conflict_do_update(index_elements=keys, set_=changed))


def _insert(table: Table) -> Insert:
    return insert(table).values({c.name: _parameter(c.name) for c in table.columns})


def _parameter(name: str) -> BindParameter[object]:
    return bindparam(name)


def deletion_of_claims() -> BulkStatement:
    """Rows: (attempt)."""
    dropped = values(column("attempt", String)).data([(_parameter("attempt"),)]).cte("dropped")
    named = select(dropped.c.attempt)
    return BulkStatement(delete(schema.claims).where(schema.claims.c.attempt.in_(named)))


def marking_of_finished() -> BulkStatement:
    """Rows: (number, wall_s, cause). What `succeeded` says is counted here, once for each job."""
    ended = _finished_jobs()
    completed: ColumnElement[str] = literal_column(f"'{EndCause.COMPLETED.value}'")
    succeeded = select(func.count()).where(
        schema.attempts.c.job == ended.c.number, schema.attempts.c.cause == completed
    )
    return BulkStatement(
        update(schema.jobs)
        .where(schema.jobs.c.number == ended.c.number)
        .values(
            finished_wall_s=ended.c.wall_s,
            cause=ended.c.cause,
            succeeded=succeeded.scalar_subquery(),
        )
    )


def _finished_jobs() -> CTE:
    columns = (column("number", Integer), column("wall_s", Float), column("cause", String))
    row = tuple(_parameter(each.name) for each in columns)
    return values(*columns).data([row]).cte("ended")


def alteration_of_jobs() -> BulkStatement:
    """Rows: (number, name, spec): what finished jobs came to be that were altered."""
    columns = (column("number", Integer), column("name", String), column("spec", LargeBinary))
    row = tuple(_parameter(each.name) for each in columns)
    altered = values(*columns).data([row]).cte("altered")
    return BulkStatement(
        update(schema.jobs)
        .where(schema.jobs.c.number == altered.c.number)
        .values(job_name=altered.c.name, spec=altered.c.spec)
    )


def deletion_of_events() -> str:
    """Parameters: (job, sequence); deletes what came before. For one row at a time."""
    statement = delete(schema.events).where(
        schema.events.c.job == _parameter("number"),
        schema.events.c.sequence < _parameter("before"),
    )
    return str(statement.compile(dialect=DIALECT))


def deletion_of_notices() -> str:
    """Parameters: (job)."""
    statement = delete(schema.notices).where(schema.notices.c.job == _parameter("number"))
    return str(statement.compile(dialect=DIALECT))


def deletion_of_drain() -> str:
    """Without parameters: the node takes work again."""
    return str(delete(schema.drain).compile(dialect=DIALECT))
