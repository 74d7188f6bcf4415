"""Queries on the past: finished jobs, attempts, sums.

Queries have a connection of their own, which sees what was committed before it began and never
waits for the writer. A query of one job takes some hundred microseconds, a sum over a million
attempts about a second: the latter belongs into a thread.
"""

from __future__ import annotations

import sqlite3
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import inf
from pathlib import Path
from typing import TypeVar

import msgspec

from iriai.model.history import HistoryRow, JobRecord, SeatRow, Selection, UsageTotal
from iriai.model.problem import NotFound
from iriai.model.records import JobEvent
from iriai.model.state import ATTEMPT_ONLY, EndCause
from iriai.store.codec import (
    HISTORY_FROM_MS,
    LAST_NUMBER,
    decode_change,
    decode_spec,
)
from iriai.store.sqlite import connect, translated

LISTED_MAX = 1000
"""The default length of a listing: more than a person reads."""


EVERYTHING = Selection()

T = TypeVar("T")


class Reader:
    """The queries; usable from any thread."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._idle: deque[sqlite3.Connection] = deque()
        """Connections that no thread uses at present."""

    def finished_jobs(
        self, selection: Selection = EVERYTHING, limit: int = LISTED_MAX
    ) -> list[JobRecord]:
        """Return jobs whose last task has ended, the latest first."""
        of_jobs = msgspec.structs.replace(selection, task_index=None)
        where, values = _where(of_jobs, {"job": "number", "ended": "finished_wall_s"})
        return self._jobs(
            f"{where} AND finished_wall_s IS NOT NULL"
            " ORDER BY finished_wall_s DESC, number DESC LIMIT :limit",
            limit=limit,
            **values,
        )

    def job(self, number: int) -> JobRecord | None:
        """Return the job of this number, finished or not; None if there is none."""
        return next(iter(self._jobs("WHERE number = :number", number=number)), None)

    def events(self, number: int) -> list[JobEvent]:
        """Return the events of a job in order, except those replaced by a snapshot."""
        rows = self._rows(_EVENTS, tuple[int, int, float, bytes, str], number=number)
        return [JobEvent(*row[:3], decode_change(row[3]), row[4]) for row in rows]

    def history(
        self, selection: Selection = EVERYTHING, limit: int = LISTED_MAX
    ) -> list[HistoryRow]:
        """Return attempts, the latest first."""
        where, values = _where(selection, _ATTEMPT_COLUMNS)
        query = f"SELECT * FROM history {where} {_LATEST_FIRST}"
        return self._rows(query, HistoryRow, limit=limit, **values)

    def last_attempts(self, number: int, after_index: int, limit: int) -> list[HistoryRow]:
        """Return the last attempt of each task above `after_index`, by index."""
        return self._rows(
            _LAST_ATTEMPTS, HistoryRow, number=number, after_index=after_index, limit=limit
        )

    def seats(self, number: int, task_index: int, attempt: int) -> list[SeatRow]:
        """Return the seats of one attempt that have ended, by rank; an attempt has few."""
        return self._rows(_SEATS, SeatRow, number=number, task_index=task_index, attempt=attempt)

    def last_seats(self, number: int, after_index: int, limit: int) -> list[SeatRow]:
        """Return the seats of each task's last attempt above `after_index`, by index and rank."""
        return self._rows(_LAST_SEATS, SeatRow, number=number, after_index=after_index, limit=limit)

    def usage(self, selection: Selection = EVERYTHING, by_job: bool = False) -> list[UsageTotal]:
        """Return sums over attempts for each account or each job, the largest charge first."""
        where, values = _where(selection, _ATTEMPT_COLUMNS)
        keys = "group_name, user_name, job, job_name" if by_job else "group_name, user_name"
        shown = keys if by_job else f"{keys}, NULL, ''"
        query = (
            f"SELECT {shown}, {_SUMS} FROM history {where}"
            f" GROUP BY {keys} ORDER BY sum(charge_s) DESC, {keys}"
        )
        return self._rows(query, UsageTotal, **values)

    def causes(self, number: int) -> dict[EndCause, int]:
        """Return the number of ended tasks of a job by cause, of those that had an attempt."""
        return dict(self._rows(_CAUSES, tuple[EndCause, int], number=number))

    def payload(self, digest: str) -> bytes:
        """Return the text stored under `digest`. Raises `NotFound`."""
        query = "SELECT content FROM payloads WHERE digest = :digest"
        rows = self._rows(query, tuple[bytes], digest=digest)
        if not rows:
            raise NotFound("no-payload", f"no text is stored under '{digest}'")
        return rows[0][0]

    def payload_sizes(self) -> dict[str, int]:
        """Return the size of each stored text in bytes, by digest."""
        return dict(self._rows("SELECT digest, length(content) FROM payloads", tuple[str, int]))

    def expired(
        self, until_wall_s: float | None, keep: int | None, limit: int
    ) -> dict[int, tuple[str, ...]]:
        """Finished jobs to be deleted, and the payloads of each; the first to end come first.

        Those that ended before `until_wall_s`, and those beyond the latest `keep`; at most `limit`.
        """
        excess = 0 if keep is None else self._finished_count() - keep
        if excess > 0:
            until_wall_s, limit = inf, min(limit, excess)
        elif until_wall_s is None:
            return {}
        rows = self._rows(_EXPIRED, tuple[int, bytes], until=until_wall_s, limit=limit)
        return {number: decode_spec(spec).text_digests for number, spec in rows}

    def _finished_count(self) -> int:
        query = "SELECT count(*) FROM jobs WHERE finished_wall_s IS NOT NULL"
        return self._rows(query, tuple[int])[0][0]

    def history_from_wall_s(self) -> float | None:
        """Return the latest end of a deleted job; None if none was deleted."""
        value = self._meta(HISTORY_FROM_MS)
        return None if value is None else value / 1000

    def last_deleted(self) -> int:
        """Return the highest number of a deleted job; 0 if none was deleted."""
        return self._meta(LAST_NUMBER) or 0

    def _meta(self, name: str) -> int | None:
        rows = self._rows("SELECT value FROM meta WHERE name = :name", tuple[int], name=name)
        return rows[0][0] if rows else None

    def notices(self) -> list[int]:
        """Return the finished jobs whose users have yet to be notified."""
        rows = self._rows("SELECT job FROM notices ORDER BY job", tuple[int])
        return [number for (number,) in rows]

    def close(self) -> None:
        """Close the connections for reading."""
        while self._idle:
            self._idle.pop().close()

    def _jobs(self, clauses: str, **values: object) -> list[JobRecord]:
        """Return the jobs that `clauses` select."""
        rows = self._rows(
            f"SELECT {_JOB_COLUMNS} FROM jobs {clauses}",
            tuple[int, bytes, float, float | None, EndCause | None, int | None],
            **values,
        )
        return [JobRecord(row[0], decode_spec(row[1]), *row[2:]) for row in rows]

    def _rows(self, query: str, kind: type[T], **values: object) -> list[T]:
        with translated(self.path), self._lent() as connection:
            rows = connection.execute(query, values).fetchall()
        return msgspec.convert(rows, list[kind])  # type: ignore[valid-type]

    @contextmanager
    def _lent(self) -> Iterator[sqlite3.Connection]:
        """A connection that no other thread uses meanwhile."""
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = connect(self.path, read_only=True)
        try:
            yield connection
        finally:
            self._idle.append(connection)


_JOB_COLUMNS = ", ".join(JobRecord.__struct_fields__)
_CONDITIONS = {
    "owner": "owner = :owner",
    "group": "group_name = :group",
    "user": "user_name = :user",
    "name": "matches(job_name, :name)",
    "job": "{job} = :job",
    "task_index": "{task_index} = :task_index",
    "cause": "cause = :cause",
    "since_wall_s": "{ended} >= :since_wall_s",
    "until_wall_s": "{ended} < :until_wall_s",
}
"""What a field of a selection demands, if it is not None."""
_ATTEMPT_COLUMNS = {"job": "job", "task_index": "task_index", "ended": "ended_wall_s"}


def _where(selection: Selection, columns: Mapping[str, str]) -> tuple[str, dict[str, object]]:
    """Return `selection` as a condition on rows with these columns, and its parameters."""
    given = msgspec.structs.asdict(selection)
    values = {name: value for name, value in given.items() if value is not None}
    conditions = [_CONDITIONS[name].format(**columns) for name in values]
    return " AND ".join(["WHERE true", *conditions]), values


_EVENTS = """
SELECT job, sequence, wall_s, change, story FROM events WHERE job = :number ORDER BY sequence
"""
_LATEST_FIRST = "ORDER BY ended_wall_s DESC, task_index DESC, attempt DESC LIMIT :limit"
_LAST_ATTEMPTS = """
SELECT * FROM history WHERE job = :number AND task_index > :after_index AND attempt = (
    SELECT max(attempt) FROM attempts
    WHERE attempts.job = :number AND attempts.task_index = history.task_index
) ORDER BY task_index LIMIT :limit
"""
_SEATS = """
SELECT * FROM seats WHERE job = :number AND task_index = :task_index AND attempt = :attempt
ORDER BY first_rank
"""
_LAST_SEATS = """
SELECT * FROM seats WHERE job = :number AND task_index > :after_index AND attempt = (
    SELECT max(attempt) FROM attempts
    WHERE attempts.job = :number AND attempts.task_index = seats.task_index
) ORDER BY task_index, first_rank LIMIT :limit
"""
_IS_LAST = f"""
cause NOT IN ({", ".join(f"'{cause}'" for cause in ATTEMPT_ONLY)})
AND NOT (cause = '{EndCause.LOST}' AND EXISTS (
    SELECT 1 FROM attempts AS later WHERE later.job = history.job
    AND later.task_index = history.task_index AND later.attempt > history.attempt
))
"""
"""That an attempt ended its task: no other one followed."""
_SUMS = f"""
count(*) FILTER (WHERE {_IS_LAST}),
count(*) FILTER (WHERE cause != '{EndCause.COMPLETED}' AND {_IS_LAST}),
sum(cpu_s), sum(elapsed_s), sum(charge_s), max(memory_peak_bytes),
coalesce(avg(started_wall_s - submitted_wall_s) FILTER (WHERE {_IS_LAST}), 0.0),
sum(returned_s)
"""
"""The columns of `UsageTotal` behind its names."""
_CAUSES = f"""
SELECT cause, count(*) FROM history WHERE job = :number AND {_IS_LAST}
GROUP BY cause ORDER BY cause
"""
_EXPIRED = """
SELECT number, spec FROM jobs
WHERE finished_wall_s < :until AND number NOT IN (SELECT job FROM notices)
ORDER BY finished_wall_s, number LIMIT :limit
"""
