"""Copies a database in use, and checks a copy before it is used."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from iriai.model.problem import NotFound
from iriai.store import schema, sqlite
from iriai.store.loading import INCARNATION, LAST_NUMBER, LAST_RESERVATION, single
from iriai.store.sqlite import damaged, translated

INCARNATIONS_APART = 1_000_000
"""How many incarnations of its node a restored store leaves out: more than any daemon has begun
since the copy was made, at one each second for eleven days."""

RESERVATIONS_APART = 10_000
"""How many numbers of reservations it leaves out: more than a home gives out in between."""


class Contents(NamedTuple):
    """The contents of a database, for people and for checks."""

    schema: int
    next_number: int
    unfinished_jobs: int
    finished_jobs: int


def copy_database(source: Path, target: Path) -> Contents:
    """Make `target`, as the database `source` is at this moment; whoever writes it goes on.

    Raises:
        Problem: there is none, it is not ours, or a disk is full. `target` may be there by half.
    """
    if not source.exists():
        raise NotFound("no-state", f"there is no {source}", "start iriai there first")
    with translated(source), closing(sqlite.connect(source)) as connection:
        version = schema.usable_version(connection, source)
        connection.execute("VACUUM INTO ?", (str(target),))
    with translated(target), closing(sqlite.connect(target)) as connection:
        return _contents(connection, version)


def check_copy(path: Path) -> Contents:
    """Return the contents of a copy; raise a `Problem` if it is damaged or of a newer iriai."""
    with translated(path), closing(sqlite.connect(path)) as connection:
        version = schema.usable_version(connection, path)
        (verdict,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
        if verdict != "ok":
            raise damaged(path, str(verdict))
        return _contents(connection, version)


def start_as_new(path: Path, next_number: int) -> None:
    """Have the copy at `path` go on as a store that its original knows nothing of.

    Jobs are numbered from `next_number`; the node begins an incarnation, and the home numbers of
    reservations, that were never there.
    """
    with translated(path), closing(sqlite.connect(path)) as connection:
        incarnation = single(connection, INCARNATION, 0) + INCARNATIONS_APART
        has_reservations = connection.execute(_HAS_RESERVATIONS).fetchone() is not None
        reservation = single(connection, LAST_RESERVATION, 0) if has_reservations else 0
        values = (
            ("incarnation", incarnation),
            ("last_number", next_number - 1),
            ("last_reservation", reservation + RESERVATIONS_APART),
        )
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(_SET, values)
        connection.execute("COMMIT")


def _contents(connection: sqlite3.Connection, version: int) -> Contents:
    return Contents(
        version,
        single(connection, LAST_NUMBER, 0) + 1,
        single(connection, _UNFINISHED, 0),
        single(connection, _FINISHED, 0),
    )


_UNFINISHED = "SELECT count(*) FROM jobs WHERE finished_wall_s IS NULL"
_FINISHED = "SELECT count(*) FROM jobs WHERE finished_wall_s IS NOT NULL"
_HAS_RESERVATIONS = "SELECT 1 FROM sqlite_schema WHERE name = 'reservations'"
_SET = "REPLACE INTO meta VALUES (?, ?)"
