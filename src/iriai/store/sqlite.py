"""SQLite: opening, recognising and writing a database."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from iriai.model.name_pattern import fits
from iriai.model.problem import Problem

_BASIC_CODE = 0xFF
"""SQLite's extended result codes hold the basic one in their lowest byte."""
_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_PASSING = (
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_READONLY,
)


class StoreFailure(Problem):
    """Records could not be made durable; none of them was kept by half.

    `passing`: the same records may be written again, and will be once the cause is gone.
    """

    def __init__(self, code: str, message: str, hint: str, *, passing: bool) -> None:
        super().__init__(code, message, hint)
        self.passing = passing


def damaged(path: Path, detail: str) -> StoreFailure:
    """Return the failure of a database that no version of iriai has written."""
    return StoreFailure(
        "state-damaged",
        f"{path} is damaged ({detail})",
        "restore it from a copy, or move it away to restart without its jobs",
        passing=False,
    )


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Raise what SQLite finds wrong with the database at `path` in words for people.

    What is an internal error stays the exception that it is.
    """
    try:
        yield
    except sqlite3.Error as error:
        failure = _failure_of(error, path)
        if failure is None:
            raise
        raise failure from error


def _failure_of(error: sqlite3.Error, path: Path) -> StoreFailure | None:
    """Return the failure that `error` means to a person; None if it is an internal error."""
    code = getattr(error, "sqlite_errorcode", 0) & _BASIC_CODE
    if code in _DAMAGE:
        return damaged(path, str(error))
    if code == sqlite3.SQLITE_FULL:
        return StoreFailure(
            "no-space",
            f"no space left under {path.parent}",
            "free some; nothing was lost",
            passing=True,
        )
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StoreFailure(
            "state-in-use",
            f"another program has locked {path}",
            "stop it; nothing was lost",
            passing=True,
        )
    if code in _PASSING:
        return StoreFailure(
            "state-not-writable",
            f"{path} cannot be read or written ({error})",
            "check its disk, quota and permissions; nothing was lost",
            passing=True,
        )
    return None


APPLICATION_ID = 0x69726961
"""`iria`, in the header of each database of ours: what `file` shows, and how we know our own."""

OLDEST_VERSION = (3, 33, 0)
"""Of August 2020: earlier ones cannot update many rows from a list of values."""
BUSY_TIMEOUT_S = 5.0
"""How long to wait for a lock that another program (a backup, say) holds for a moment."""
CHECKPOINT_PAGES = 8192
"""The log is folded into the database when it has 32 MB and nobody gave it the time before. More
would make recovery after a crash slower, less would interrupt the work more often."""
FREE_PAGES_KEPT = 256
"""Free pages that are not returned: 1 MB."""
FREED_PAGES_MAX = 1024
"""Pages returned at a time: 4 MB, some milliseconds in which nothing else is written."""
STATEMENTS_CACHED = 256
"""Prepared statements kept: all that the store has, with room."""


def connect(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    """Connect to the existing database at `path`; transactions are the caller's."""
    connection = sqlite3.connect(
        path.absolute().as_uri() + "?mode=rw",
        uri=True,
        timeout=BUSY_TIMEOUT_S,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=STATEMENTS_CACHED,
    )
    connection.execute("PRAGMA synchronous=FULL")
    if read_only:
        connection.execute("PRAGMA query_only=ON")
        connection.create_function("matches", 2, fits, deterministic=True)
    return connection


def busy_timeout(seconds: float) -> str:
    """Return the statement that sets how long to wait for a lock of another program."""
    return f"PRAGMA busy_timeout={round(1000 * seconds)}"


def prepare_for_writing(connection: sqlite3.Connection) -> None:
    """Put the database into the mode in which a commit is one append and one sync."""
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute(f"PRAGMA wal_autocheckpoint={CHECKPOINT_PAGES}")


def checkpoint(connection: sqlite3.Connection) -> None:
    """Fold the write-ahead log into the database, as far as no reader needs it."""
    connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()


def give_back_pages(connection: sqlite3.Connection) -> bool:
    """Give some of the pages that hold nothing back to the system; whether there are more.

    A quarter of the database may stay free: what comes next needs room as well.
    """
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    (free,) = connection.execute("PRAGMA freelist_count").fetchone()
    excess = free - max(FREE_PAGES_KEPT, (pages - free) // 4)
    if excess <= 0:
        return False
    count = min(excess, FREED_PAGES_MAX)
    # One step of this statement frees one page, and `execute` takes one step.
    connection.executescript(f"PRAGMA incremental_vacuum({count})")
    (left,) = connection.execute("PRAGMA freelist_count").fetchone()
    return bool(left < free and excess > count)


def make_ours(connection: sqlite3.Connection) -> None:
    """Make a new database ours, and one that gives pages back."""
    connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
    # Something has to be written in the same connection, or the setting is forgotten.
    connection.execute(f"PRAGMA application_id={APPLICATION_ID}")


def missing_pages(connection: sqlite3.Connection, path: Path) -> int:
    """Return how many pages the file at `path` lacks; call it after `checkpoint`."""
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
    return max(0, int(pages) - path.stat().st_size // int(page_bytes))


def is_ours(connection: sqlite3.Connection) -> bool:
    """Return whether the database has iriai's application id."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    return bool(application == APPLICATION_ID)
