"""Loads the state that cores start from."""

from __future__ import annotations

import gc
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
from msgspec.structs import replace

from iriai.model.ids import OCCURRENCE_STEP, Account
from iriai.model.job import JobSpec
from iriai.model.owner import OwnerWord
from iriai.model.records import (
    AbsencesLearnt,
    Drained,
    JobEvent,
    KeySet,
    LedgerRow,
    OwnerWordGiven,
    SectionSet,
)
from iriai.model.snapshot import StoredJob, StoredState, waited_for
from iriai.model.state import EndCause
from iriai.store.codec import (
    decode_booking,
    decode_buckets,
    decode_change,
    decode_claim,
    decode_refunds,
    decode_reservation,
    decode_settings,
    decode_spec,
)

_Target = tuple[int, int | None]


def ended_of(connection: sqlite3.Connection, jobs: list[StoredJob]) -> dict[_Target, EndCause]:
    """How those have ended, by (job, task or None for all of it), that `jobs` may wait for.

    A task of a job that has not finished is named also where it waits again after an attempt.
    """
    unfinished = {job.number for job in jobs}
    found: dict[_Target, EndCause] = {}
    for target in dict.fromkeys((each.number, each.task) for each in waited_for(jobs)):
        number, task = target
        if task is None and number in unfinished:
            continue
        query, values = (_JOB, (number,)) if task is None else (_TASK, target)
        row = connection.execute(query, values).fetchone()
        if row is not None and row[0] is not None:
            found[target] = EndCause(row[0])
    return found


_JOB = "SELECT cause FROM jobs WHERE number = ?"
_TASK = """
SELECT cause FROM attempts WHERE job = ? AND task_index = ? ORDER BY attempt DESC LIMIT 1
"""


_SHARED = (
    "account",
    "user",
    "name",
    "working_directory",
    "resources",
    "array",
    "window",
    "after",
    "time_limit_s",
    "lease_s",
    "environment",
    "script",
    "stdin",
    "output",
    "error",
)
"""Fields that many jobs have alike, like the words of their commands: sharing them saves more than
half of the memory that 100,000 jobs of one loop take. All texts, tuples and floats: one pool holds
no two equal values of different types."""


def load(connection: sqlite3.Connection) -> StoredState:
    """Load everything durable that has not ended."""
    with _without_collection():
        jobs = _load_jobs(connection)
        return StoredState(
            incarnation=single(connection, INCARNATION, 0),
            next_number=single(connection, LAST_NUMBER, 0) + 1,
            jobs=jobs,
            claims=[decode_claim(blob) for (blob,) in connection.execute(_CLAIMS)],
            ledger=[_ledger_row(row) for row in connection.execute(_LEDGER)],
            drained=next((Drained(*row) for row in connection.execute(_DRAIN)), None),
            settings=[_section(*row) for row in connection.execute(_SETTINGS)],
            ended=ended_of(connection, jobs),
            owner_word=next((_owner_word(*r) for r in connection.execute(_OWNER_WORD)), None),
            absences=AbsencesLearnt(next((each for (each,) in connection.execute(_ABSENCES)), b"")),
            reservations=[decode_reservation(blob) for (blob,) in connection.execute(_RESERVED)],
            next_reservation=single(connection, LAST_RESERVATION, 0) + 1,
            bookings=[decode_booking(blob) for (blob,) in connection.execute(_BOOKINGS)],
        )


def _ledger_row(row: Sequence[Any]) -> LedgerRow:
    group, user, *counts, buckets, refunds = row
    counted = LedgerRow(Account(group, user), *counts)
    if refunds:
        counted = replace(counted, refunds=decode_refunds(refunds))
    return replace(counted, buckets=decode_buckets(buckets)) if buckets else counted


def _owner_word(word: str, until_wall_s: float | None, vacates: int) -> OwnerWordGiven:
    return OwnerWordGiven(OwnerWord(word), until_wall_s, bool(vacates))


def _section(section: str, name: str, text: str, by: str, wall_s: float) -> SectionSet:
    """Return what was set; earlier versions kept one author for all keys."""
    settings = tuple(KeySet(*each, *(() if each[2:] else (by,))) for each in decode_settings(text))
    return SectionSet(section, name, settings, by, wall_s)


def _load_jobs(connection: sqlite3.Connection) -> list[StoredJob]:
    pool: dict[object, object] = {}
    jobs: list[StoredJob] = []
    last: bytes | None = None
    for number, blob, submitted_wall_s in connection.execute(_JOBS):
        if blob != last:  # a loop submits many that are equal
            spec, last = _share(decode_spec(blob), pool), blob
        jobs.append(StoredJob(number, spec, submitted_wall_s, []))
    by_number = {job.number: job for job in jobs}
    for number, sequence, wall_s, change, story in connection.execute(_EVENTS):
        event = JobEvent(number, sequence, wall_s, decode_change(change), story)
        by_number[number].events.append(event)
    return jobs


def _share(spec: JobSpec, pool: dict[object, object]) -> JobSpec:
    """`spec` itself, its fields replaced by equal ones of earlier specs.

    It is frozen for everybody else, and nobody else has seen it yet.
    """
    for name in _SHARED:
        value = getattr(spec, name)
        known = pool.setdefault(value, value)
        if known is not value:
            msgspec.structs.force_setattr(spec, name, known)
    words = tuple([pool.setdefault(word, word) for word in spec.command])
    msgspec.structs.force_setattr(spec, "command", words)
    return spec


@contextmanager
def _without_collection() -> Iterator[None]:
    """Pause garbage collection, which would take most of the time and find nothing."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def single(connection: sqlite3.Connection, query: str, otherwise: int) -> int:
    """Return the single number of `query`, or `otherwise` if there is none."""
    row = connection.execute(query).fetchone()
    return otherwise if row is None or row[0] is None else int(row[0])


INCARNATION = "SELECT value FROM meta WHERE name = 'incarnation'"
LAST_NUMBER = """
SELECT max(
    coalesce((SELECT max(number) FROM jobs), 0),
    coalesce((SELECT value FROM meta WHERE name = 'last_number'), 0)
)
"""
LAST_RESERVATION = f"""
SELECT max(
    coalesce((SELECT max(number % {OCCURRENCE_STEP}) FROM reservations), 0),
    coalesce((SELECT value FROM meta WHERE name = 'last_reservation'), 0)
)
"""
_JOBS = """
SELECT number, spec, submitted_wall_s FROM jobs WHERE finished_wall_s IS NULL ORDER BY number
"""
_EVENTS = """
SELECT job, sequence, wall_s, change, story FROM events
WHERE job IN (SELECT number FROM jobs WHERE finished_wall_s IS NULL) ORDER BY job, sequence
"""
_CLAIMS = "SELECT claim FROM claims ORDER BY attempt"
_LEDGER = "SELECT * FROM ledger ORDER BY group_name, user_name"
_SETTINGS = "SELECT section, name, settings, by_whom, wall_s FROM settings ORDER BY section, name"
_OWNER_WORD = "SELECT word, until_wall_s, vacates FROM owner_word"
_ABSENCES = "SELECT counts FROM owner_absences"
_RESERVED = "SELECT reservation FROM reservations ORDER BY number"
_BOOKINGS = "SELECT booking FROM bookings ORDER BY reservation"
_DRAIN = "SELECT reason, by_whom, since_wall_s FROM drain"
