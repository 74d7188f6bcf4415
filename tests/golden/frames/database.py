"""The store's tables as the migrations make them, and the rows that each record becomes."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from iriai.model.records import (
    AbsencesLearnt,
    AttemptResult,
    BookingStored,
    ClaimStored,
    Drained,
    Incarnated,
    JobAccepted,
    JobEvent,
    JobFinished,
    LedgerRow,
    NoticeDue,
    OwnerWordGiven,
    Record,
    ReservationStored,
    SeatEnded,
    SectionSet,
)
from iriai.model.snapshot import StoredState
from iriai.store import Store
from iriai.store.store import fill_new_database
from tests.golden.frames.samples import value_of

WRITTEN = (
    JobAccepted,
    JobEvent,
    AttemptResult,
    JobFinished,
    ClaimStored,
    LedgerRow,
    Incarnated,
    NoticeDue,
    Drained,
    OwnerWordGiven,
    AbsencesLearnt,
    SectionSet,
    ReservationStored,
    BookingStored,
)
"""Records that become rows; the others delete some."""
HEX = "hex "
"""Before bytes, in rows."""


def schema_text() -> str:
    """How each table, index and view of a new database was made."""
    with _database() as path, closing(sqlite3.connect(path)) as connection:
        query = "SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY 1, 2"
        made = [" ".join(sql.split()) for _, _, sql in connection.execute(query)]
        names = ("application_id", "auto_vacuum", "user_version")
        settings = [(name, connection.execute(f"PRAGMA {name}").fetchone()[0]) for name in names]
    pragmas = [f"PRAGMA {name}={value};" for name, value in settings]
    return "\n".join([*pragmas, *(f"{each};" for each in made)]) + "\n"


def rows_text() -> str:
    """Every row that the records leave, a line of JSON each; the table's name first."""
    with _database() as path:
        with closing(Store.open(path)) as store:
            store.write(records())
        with closing(sqlite3.connect(path)) as connection:
            return "".join(f"{_line(row)}\n" for row in _rows(connection))


def records() -> list[Record]:
    """One of each, as full as may be, and one of a job that has only what it must."""
    jobs = [value_of(JobAccepted), value_of(JobAccepted, "least")]
    jobs[1] = msgspec.structs.replace(jobs[1], number=1)
    seats = msgspec.structs.replace(value_of(JobEvent), sequence=1, change=value_of(SeatEnded))
    return [*jobs, seats, *(value_of(kind) for kind in WRITTEN if kind is not JobAccepted)]


def loaded(rows: list[tuple[str, dict[str, Any]]]) -> StoredState:
    """What a machine that comes up finds in a new database with these rows."""
    with _database() as path:
        with closing(sqlite3.connect(path)) as connection, connection:
            for table, columns in rows:
                marks = ", ".join("?" * len(columns))
                values = [_unshown(value) for value in columns.values()]
                insert = f"INSERT OR REPLACE INTO {table} ({', '.join(columns)}) VALUES ({marks})"
                connection.execute(insert, values)
        with closing(Store.open(path)) as store:
            return store.load()


@contextmanager
def _database() -> Iterator[Path]:
    with TemporaryDirectory() as directory:
        path = Path(directory, "iriai.db")
        path.touch(mode=0o600)
        fill_new_database(path)
        yield path


def _rows(connection: sqlite3.Connection) -> Iterator[tuple[str, dict[str, Any]]]:
    query = "SELECT name FROM sqlite_master WHERE type='table' ORDER BY name"
    for (table,) in connection.execute(query).fetchall():
        cursor = connection.execute(f'SELECT * FROM "{table}" ORDER BY 1')
        names = [each[0] for each in cursor.description]
        yield from ((table, dict(zip(names, row, strict=True))) for row in cursor)


def _line(row: tuple[str, dict[str, Any]]) -> str:
    table, columns = row
    shown = {
        name: f"{HEX}{value.hex()}" if isinstance(value, bytes) else value
        for name, value in columns.items()
    }
    return msgspec.json.encode((table, shown)).decode()


def _unshown(value: Any) -> Any:
    if isinstance(value, str) and value.startswith(HEX):
        return bytes.fromhex(value.removeprefix(HEX))
    return value
