"""The records of one transaction, sorted into rows."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any

from msgspec.structs import astuple
from sqlalchemy import (
    CTE,
    ColumnClause,
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

from iriai.model.records import (
    AttemptResult,
    ClaimsDropped,
    ClaimStored,
    Drained,
    HistoryDropped,
    Incarnated,
    JobAccepted,
    JobEvent,
    JobFinished,
    LedgerRow,
    NoticeDue,
    NoticesDropped,
    Record,
    Resumed,
    Snapshot,
)
from iriai.model.state import EndCause
from iriai.store import schema
from iriai.store.codec import digests_of, drop_history, encode, encode_buckets, encode_factors
from iriai.store.sqlite import DIALECT, Insert, insert

Row = Sequence[object]
"""Values in the order of the parameters of a statement."""

CHUNKS = (32, 16, 8, 4, 2, 1)
"""Rows in one statement. Larger ones gain nothing measurable and cost memory, for each is kept
prepared; powers of two fill any number with few."""


class BulkStatement:
    """One statement that takes any number of rows.

    Made from a statement for one row, in which the row stands as one group of parameters.

    Each step into SQLite gives up Python's lock, and getting it back from a busy thread costs up
    to a switch interval. One statement for 32 rows instead of 32 for one row makes that bearable,
    and is faster by itself.
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
    return insert(table).values({c.name: bindparam(c.name) for c in table.columns})


def deletion_of_claims() -> BulkStatement:
    """Rows: (attempt)."""
    dropped = _given_rows("dropped", column("attempt", String))
    named = select(dropped.c.attempt)
    return BulkStatement(delete(schema.claims).where(schema.claims.c.attempt.in_(named)))


def marking_of_finished() -> BulkStatement:
    """Rows: (number, wall_s, cause); counts `succeeded`, once for each job."""
    ended = _given_rows(
        "ended", column("number", Integer), column("wall_s", Float), column("cause", String)
    )
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


def alteration_of_jobs() -> BulkStatement:
    """Rows: (number, name, spec) of finished jobs that were altered before they ended."""
    altered = _given_rows(
        "altered", column("number", Integer), column("name", String), column("spec", LargeBinary)
    )
    return BulkStatement(
        update(schema.jobs)
        .where(schema.jobs.c.number == altered.c.number)
        .values(job_name=altered.c.name, spec=altered.c.spec)
    )


def _given_rows(name: str, *columns: ColumnClause[Any]) -> CTE:
    """Return a table expression of the rows that the statement is run for."""
    return values(*columns).data([tuple(bindparam(each.name) for each in columns)]).cte(name)


_DELETE_EARLIER_EVENTS = "DELETE FROM events WHERE job = ? AND sequence < ?"
_DELETE_NOTICE = "DELETE FROM notices WHERE job = ?"
_DELETE_DRAIN = "DELETE FROM drain"


class WriteSet:
    """Rows by table.

    Of values that replace each other the last one stands, as if the records had been written one
    after the other.
    """

    def __init__(self, records: Iterable[Record]) -> None:
        self.payloads: list[Row] = []
        self.payload_uses: list[Row] = []
        self.notices: dict[int, bool] = {}
        """Whether a notice is due, by job."""
        self.history: list[HistoryDropped] = []
        self.jobs: list[Row] = []
        self.events: list[Row] = []
        self.snapshots: list[Row] = []
        self.attempts: list[Row] = []
        self.finished: list[Row] = []
        self.altered: list[Row] = []
        self.claims: dict[str, bytes | None] = {}
        """The encoded claims by attempt; None if dropped."""
        self.ledger: dict[tuple[str, str], Row] = {}
        self.meta: dict[str, int] = {}
        self.drain: Drained | Resumed | None = None
        """The last change of the drain; None if there was none."""
        for record in records:
            self._sort(record)

    def _sort(self, record: Record) -> None:
        match record:  # the most frequent first
            case ClaimStored():
                self.claims[str(record.claim.attempt)] = encode(record.claim)
            case AttemptResult():
                self._result(record)
            case JobEvent():
                self._event(record)
            case ClaimsDropped(attempts):
                self.claims.update(dict.fromkeys(map(str, attempts)))
            case LedgerRow():
                *counts, buckets = astuple(record)[1:]
                row = (*record.account, *counts, encode_buckets(buckets))
                self.ledger[record.account] = row
            case JobAccepted():
                self._accept(record)
            case JobFinished():
                self._finish(record)
            case Incarnated():
                self.meta["incarnation"] = record.incarnation
            case NoticeDue(number):
                self.notices[number] = True
            case NoticesDropped(numbers):
                self.notices.update(dict.fromkeys(numbers, False))
            case HistoryDropped():
                self.history.append(record)
            case Drained() | Resumed():
                self.drain = record

    def _finish(self, record: JobFinished) -> None:
        self.finished.append((record.number, record.wall_s, record.cause.value))
        if record.spec is not None:
            self.altered.append((record.number, record.spec.name, encode(record.spec)))

    def _accept(self, record: JobAccepted) -> None:
        spec = record.spec
        group, user = spec.account
        self.payloads.extend(record.payloads)
        self.payload_uses += [(digest, record.number) for digest in digests_of(spec)]
        submitted = record.submitted_wall_s
        self.jobs.append(
            (record.number, group, user, spec.user, spec.name, encode(spec), submitted, *_NO_END)
        )

    def _event(self, record: JobEvent) -> None:
        change = record.change
        self.events.append(
            (record.number, record.sequence, record.wall_s, encode(change), record.story)
        )
        if type(change) is Snapshot:
            self.snapshots.append((record.number, record.sequence))

    def _result(self, record: AttemptResult) -> None:
        # The columns stand in the order of the fields.
        attempt, machine, cause, exit_code, signal, usage, *ended, factors = astuple(record)
        how = (machine, cause.value, exit_code, signal)
        row = (*attempt[1:], *how, *astuple(usage), *ended, encode_factors(factors))
        self.attempts.append(row)


_NO_END = (None, None, None)

BOUND_BYTES_MAX = 64 << 10
"""Size of texts of one batch that may stay in prepared statements."""


_content_of: Callable[[Row], bytes] = itemgetter(1)
_spec_of: Callable[[Row], bytes] = itemgetter(5)


class BatchWriter:
    """The prepared statements, and the order they go in."""

    def __init__(self) -> None:
        self._payloads = insertion_of_missing(schema.payloads)
        self._payload_uses = insertion(schema.payload_uses)
        self._notices = insertion_of_missing(schema.notices)
        self._jobs = insertion(schema.jobs)
        self._events = insertion(schema.events)
        # A second result of one attempt is dropped: the first has been charged.
        self._attempts = insertion_of_missing(schema.attempts)
        self._finished = marking_of_finished()
        self._altered = alteration_of_jobs()
        self._claims = replacement(schema.claims)
        self._dropped = deletion_of_claims()
        self._ledger = replacement(schema.ledger)
        self._meta = replacement(schema.meta)
        self._drain = replacement(schema.drain)

    def write(self, cursor: sqlite3.Cursor, batch: WriteSet) -> None:
        """Execute `batch` within the transaction of `cursor`."""
        self._write_payloads(cursor, batch.payloads)
        self._payload_uses.run(cursor, batch.payload_uses)
        are_large = sum(map(len, map(_spec_of, batch.jobs))) > 16 * BOUND_BYTES_MAX
        self._jobs.run(cursor, batch.jobs, one_by_one=are_large)
        self._events.run(cursor, batch.events)
        if batch.snapshots:
            cursor.executemany(_DELETE_EARLIER_EVENTS, batch.snapshots)
        # Attempts first: marking a job finished counts those that succeeded.
        self._attempts.run(cursor, batch.attempts)
        self._finished.run(cursor, batch.finished)
        self._altered.run(cursor, batch.altered)
        self._write_claims(cursor, batch.claims)
        self._ledger.run(cursor, list(batch.ledger.values()))
        self._meta.run(cursor, list(batch.meta.items()))
        self._write_notices(cursor, batch.notices)
        for record in batch.history:
            drop_history(cursor, record)
        match batch.drain:
            case Drained(reason, by, since_wall_s):
                self._drain.run(cursor, [(1, reason, by, since_wall_s)])
            case Resumed():
                cursor.execute(_DELETE_DRAIN)

    def _write_payloads(self, cursor: sqlite3.Cursor, payloads: list[Row]) -> None:
        self._payloads.run(cursor, payloads)
        if sum(map(len, map(_content_of, payloads))) > BOUND_BYTES_MAX:
            # A statement keeps what it was given last: now nothing, for keys that are there.
            self._payloads.run(cursor, [(digest, b"") for digest, _ in payloads])

    def _write_notices(self, cursor: sqlite3.Cursor, notices: dict[int, bool]) -> None:
        self._notices.run(cursor, [(number,) for number, is_due in notices.items() if is_due])
        told = [(number,) for number, is_due in notices.items() if not is_due]
        if told:
            cursor.executemany(_DELETE_NOTICE, told)

    def _write_claims(self, cursor: sqlite3.Cursor, claims: dict[str, bytes | None]) -> None:
        kept: Sequence[Row] = [item for item in claims.items() if item[1] is not None]
        self._claims.run(cursor, kept)
        if len(kept) < len(claims):
            dropped = [(attempt,) for attempt, claim in claims.items() if claim is None]
            self._dropped.run(cursor, dropped)
