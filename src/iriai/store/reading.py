"""Queries on the past: finished jobs, attempts, sums.

Queries have a connection of their own, which sees what was committed before it began and never
waits for the writer. A query of one job takes some hundred microseconds, a sum over a million
attempts about a second: the latter belongs into a thread.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec
from sqlalchemy import ColumnElement, Select, Table, func, select

from iriai.model.charge_factors import Factors
from iriai.model.job import JobSpec
from iriai.model.problem import NotFound
from iriai.model.records import JobEvent
from iriai.model.state import EndCause
from iriai.store import schema, usage_queries
from iriai.store.codec import (
    HISTORY_FROM_MS,
    LAST_NUMBER,
    decode_change,
    decode_factors,
    decode_spec,
    digests_of,
)
from iriai.store.sqlite import matches, reading_engine, translated

LISTED_MAX = 1000
"""The default length of a listing: more than a person reads."""


class Selection(msgspec.Struct, frozen=True):
    """A selection of jobs or attempts; None is no condition."""

    owner: str | None = None
    """The Unix user who submitted."""
    group: str | None = None
    user: str | None = None
    """The user of the account."""
    name: str | None = None
    """A shell pattern of job names."""
    job: int | None = None
    task_index: int | None = None
    """The task of attempts; jobs have none."""
    cause: EndCause | None = None
    """The end of the job or attempt."""
    since_wall_s: float | None = None
    """The earliest end, inclusive."""
    until_wall_s: float | None = None
    """The latest end, exclusive."""


class JobRecord(msgspec.Struct, frozen=True):
    """A job as it is stored. The last three are None until it has finished."""

    number: int
    spec: JobSpec
    submitted_wall_s: float
    finished_wall_s: float | None
    cause: EndCause | None
    succeeded: int | None
    """Tasks that completed; all others ended in another way."""


class HistoryRow(NamedTuple):
    """One attempt, with the names of its job: the history of paper 000, section 5.1."""

    job: int
    task_index: int
    attempt: int
    machine: str
    cause: EndCause
    exit_code: int | None
    signal: int | None
    cpu_s: float
    memory_peak_bytes: int
    read_bytes: int
    written_bytes: int
    started_wall_s: float
    ended_wall_s: float
    elapsed_s: float
    charge_s: float
    message: str
    encoded_factors: str | None
    group_name: str
    user_name: str
    owner: str
    job_name: str
    submitted_wall_s: float

    @property
    def factors(self) -> Factors:
        """The factors of the charges of its time; empty if all of it was at peak."""
        return decode_factors(self.encoded_factors)


EVERYTHING = Selection()

T = TypeVar("T")


_JOB_COLUMNS = [schema.jobs.c[name] for name in JobRecord.__struct_fields__]


class Reader:
    """The queries; usable from any thread."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._engine = reading_engine(path)

    def finished_jobs(
        self, selection: Selection = EVERYTHING, limit: int = LISTED_MAX
    ) -> list[JobRecord]:
        """Return jobs whose last task has ended, the latest first."""
        ended = schema.jobs.c.finished_wall_s
        query = select(*_JOB_COLUMNS).where(
            ended.is_not(None), *_conditions(selection, schema.jobs, schema.jobs.c.number, ended)
        )
        latest_first = query.order_by(ended.desc(), schema.jobs.c.number.desc()).limit(limit)
        return self._jobs(latest_first)

    def job(self, number: int) -> JobRecord | None:
        """Return the job of this number, finished or not; None if there is none."""
        query = select(*_JOB_COLUMNS).where(schema.jobs.c.number == number)
        return next(iter(self._jobs(query)), None)

    def events(self, number: int) -> list[JobEvent]:
        """Return the events of a job in order, except those replaced by a snapshot."""
        events = schema.events
        query = select(events).where(events.c.job == number).order_by(events.c.sequence)
        rows = self._rows(query, tuple[int, int, float, bytes, str])
        return [JobEvent(*row[:3], decode_change(row[3]), row[4]) for row in rows]

    def history(
        self, selection: Selection = EVERYTHING, limit: int = LISTED_MAX
    ) -> list[HistoryRow]:
        """Return attempts, the latest first."""
        history = schema.history
        query = select(history).where(
            *_conditions(selection, history, history.c.job, history.c.ended_wall_s)
        )
        if selection.task_index is not None:
            query = query.where(history.c.task_index == selection.task_index)
        latest_first = query.order_by(
            history.c.ended_wall_s.desc(), history.c.task_index.desc(), history.c.attempt.desc()
        ).limit(limit)
        return self._rows(latest_first, HistoryRow)

    def last_attempts(self, number: int, after_index: int, limit: int) -> list[HistoryRow]:
        """Return the last attempt of each task above `after_index`, by index."""
        history, attempts = schema.history, schema.attempts.alias()
        last = (
            select(func.max(attempts.c.attempt))
            .where(attempts.c.job == number, attempts.c.task_index == history.c.task_index)
            .scalar_subquery()
        )
        query = select(history).where(
            history.c.job == number,
            history.c.task_index > after_index,
            history.c.attempt == last,
        )
        return self._rows(query.order_by(history.c.task_index).limit(limit), HistoryRow)

    def usage(
        self, selection: Selection = EVERYTHING, by_job: bool = False
    ) -> list[usage_queries.UsageTotal]:
        """Return sums over attempts for each account or each job, the largest charge first."""
        history = schema.history
        query = usage_queries.usage_query(by_job).where(
            *_conditions(selection, history, history.c.job, history.c.ended_wall_s)
        )
        return self._rows(query, usage_queries.UsageTotal)

    def causes(self, number: int) -> dict[EndCause, int]:
        """Return the number of ended tasks of a job by cause, of those that had an attempt."""
        return dict(self._rows(usage_queries.causes_query(number), tuple[EndCause, int]))

    def payload(self, digest: str) -> bytes:
        """Return the text stored under `digest`. Raises `NotFound`."""
        payloads = schema.payloads
        query = select(payloads.c.content).where(payloads.c.digest == digest)
        rows = self._rows(query, tuple[bytes])
        if not rows:
            raise NotFound("no-payload", f"no text is stored under '{digest}'")
        return rows[0][0]

    def payload_sizes(self) -> dict[str, int]:
        """Return the size of each stored text in bytes, by digest."""
        payloads = schema.payloads
        query = select(payloads.c.digest, func.length(payloads.c.content))
        return dict(self._rows(query, tuple[str, int]))

    def expired(
        self, until_wall_s: float | None, keep: int | None, limit: int
    ) -> dict[int, tuple[str, ...]]:
        """Finished jobs to be deleted, and the payloads of each; the first to end come first.

        Those that ended before `until_wall_s`, and those beyond the latest `keep`; at most `limit`.
        """
        jobs = schema.jobs
        ended = jobs.c.finished_wall_s
        told = jobs.c.number.not_in(select(schema.notices.c.job))
        query = select(jobs.c.number, jobs.c.spec).where(ended.is_not(None), told)
        excess = 0 if keep is None else self._finished_count() - keep
        if excess > 0:
            limit = min(limit, excess)
        elif until_wall_s is None:
            return {}
        else:
            query = query.where(ended < until_wall_s)
        oldest = query.order_by(ended, jobs.c.number).limit(limit)
        rows = self._rows(oldest, tuple[int, bytes])
        return {number: digests_of(decode_spec(spec)) for number, spec in rows}

    def _finished_count(self) -> int:
        ended = schema.jobs.c.finished_wall_s
        query = select(func.count()).select_from(schema.jobs).where(ended.is_not(None))
        return self._rows(query, tuple[int])[0][0]

    def history_from_wall_s(self) -> float | None:
        """Return the latest end of a deleted job; None if none was deleted."""
        value = self._meta(HISTORY_FROM_MS)
        return None if value is None else value / 1000

    def last_deleted(self) -> int:
        """Return the highest number of a deleted job; 0 if none was deleted."""
        return self._meta(LAST_NUMBER) or 0

    def _meta(self, name: str) -> int | None:
        query = select(schema.meta.c.value).where(schema.meta.c.name == name)
        rows = self._rows(query, tuple[int])
        return rows[0][0] if rows else None

    def notices(self) -> list[int]:
        """Return the finished jobs whose users have yet to be notified."""
        query = select(schema.notices.c.job).order_by(schema.notices.c.job)
        return [number for (number,) in self._rows(query, tuple[int])]

    def close(self) -> None:
        """Close the connections for reading."""
        self._engine.dispose()

    def _jobs(self, query: Select[*tuple[object, ...]]) -> list[JobRecord]:
        """Return the jobs of a query for `_JOB_COLUMNS`."""
        rows = self._rows(
            query, tuple[int, bytes, float, float | None, EndCause | None, int | None]
        )
        return [JobRecord(row[0], decode_spec(row[1]), *row[2:]) for row in rows]

    def _rows(self, query: Select[*tuple[object, ...]], kind: type[T]) -> list[T]:
        with translated(self.path), self._engine.connect() as connection:
            rows = [tuple(row) for row in connection.execute(query)]
        return msgspec.convert(rows, list[kind])  # type: ignore[valid-type]


def _conditions(
    selection: Selection,
    table: Table,
    number: ColumnElement[int],
    ended: ColumnElement[float],
) -> list[ColumnElement[bool]]:
    """Return `selection` as conditions on `table`."""
    conditions = [
        column == wanted
        for column, wanted in (
            (table.c.owner, selection.owner),
            (table.c.group_name, selection.group),
            (table.c.user_name, selection.user),
            (number, selection.job),
            (table.c.cause, selection.cause),
        )
        if wanted is not None
    ]
    if selection.name is not None:
        conditions.append(matches(table.c.job_name, selection.name))
    if selection.since_wall_s is not None:
        conditions.append(ended >= selection.since_wall_s)
    if selection.until_wall_s is not None:
        conditions.append(ended < selection.until_wall_s)
    return conditions
