"""What can be wrong with a database, in words for the person who must mend it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy.exc import DBAPIError

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
    """The database at `path` holds what no version of ours has written."""
    return StoreFailure(
        "state-damaged",
        f"{path} is damaged ({detail})",
        "restore it from a copy, or move it away to begin anew without its jobs",
        passing=False,
    )


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Raise what SQLite finds wrong with the database at `path` in words for people.

    What is a mistake of ours stays the exception that it is.
    """
    try:
        yield
    except (sqlite3.Error, DBAPIError) as error:
        cause = error.orig if isinstance(error, DBAPIError) else error
        failure = _failure_of(cause, path)
        if failure is None:
            raise
        raise failure from error


def _failure_of(error: BaseException | None, path: Path) -> StoreFailure | None:
    """What `error` means to a person; None where it is a mistake of ours."""
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
            "end it; nothing was lost",
            passing=True,
        )
    if code in _PASSING:
        return StoreFailure(
            "state-not-writable",
            f"{path} cannot be read or written ({error})",
            "see to its disk, quota and permissions; nothing was lost",
            passing=True,
        )
    return None
