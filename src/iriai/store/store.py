"""One machine's durable memory."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from iriai.model.problem import NotAllowed, NotFound, Problem, Refused
from iriai.model.records import Record
from iriai.model.snapshot import StoredState
from iriai.store import loading, schema, sqlite
from iriai.store.batch import WriteSet, write_batch
from iriai.store.reading import Reader
from iriai.store.sqlite import BUSY_TIMEOUT_S, damaged, translated
from iriai.system.atomic_files import sync_directory
from iriai.system.passwd_cache import user_words

_MAGIC = b"SQLite format 3\0"
_LOGS = ("-wal", "-journal")
_MODE = 0o600
"""Only the owner may read: environments and standard input are in there."""


def open_database(path: Path, *, create: bool) -> sqlite3.Connection:
    """Return the connection of the one writer of the database at `path`; see `Store.open`."""
    _check_library()
    try:
        with translated(path):
            _check_file(path, create=create)
            return _connect(path)
    except OSError as error:
        raise _unreachable(path, error) from error


def _check_library() -> None:
    if sqlite3.sqlite_version_info < sqlite.OLDEST_VERSION:
        needed = ".".join(map(str, sqlite.OLDEST_VERSION))
        raise Refused(
            "sqlite-too-old",
            f"this Python has SQLite {sqlite3.sqlite_version}, iriai needs {needed}",
            "use another Python; those that uv and conda install bring their own",
        )


def _check_file(path: Path, *, create: bool) -> None:
    directory = path.parent
    if not directory.is_dir():
        raise NotFound("no-state", f"there is no directory {directory}", "create it first")
    try:
        found = path.stat()
    except FileNotFoundError:
        if not create:
            raise NotFound("no-state", f"there is no {path}", "start iriai there first") from None
        _make_database(path)
        return
    if not stat.S_ISREG(found.st_mode):
        raise Refused("state-foreign", f"{path} is not a file", "move it away")
    if os.geteuid() not in (0, found.st_uid):
        raise NotAllowed(
            "state-of-another",
            f"{path} belongs to {user_words(found.st_uid)}",
            "use a state directory of your own",
        )
    _check_access(path)
    if found.st_size == 0:
        raise damaged(path, "it is empty")  # we never leave one so; SQLite would start afresh
    with path.open("rb") as file:
        if file.read(len(_MAGIC)) != _MAGIC:
            raise schema.foreign(path)


def _make_database(path: Path) -> None:
    """Make it aside and give it its name when it is whole: there is never half a database.

    Made by root it belongs to the directory's owner, for whom root prepares it.
    """
    if any(Path(f"{path}{suffix}").exists() for suffix in _LOGS):
        raise damaged(path, "it is missing, but its log exists")
    fresh = Path(f"{path}.new")
    for suffix in ("", *_LOGS):
        Path(f"{fresh}{suffix}").unlink(missing_ok=True)  # of a start that was interrupted
    descriptor = os.open(fresh, os.O_CREAT | os.O_EXCL | os.O_RDWR, _MODE)
    try:
        if os.geteuid() == 0:
            owner = path.parent.stat()
            os.fchown(descriptor, owner.st_uid, owner.st_gid)
        fill_new_database(fresh)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    fresh.rename(path)
    sync_directory(path.parent)


def fill_new_database(path: Path) -> None:
    """Make the empty file at `path` a database of this version's schema."""
    with closing(sqlite.connect(path)) as connection:
        sqlite.make_ours(connection)
        schema.migrate(connection, 0)


def _check_access(path: Path) -> None:
    """Check that database and directory are writable: the log lies beside the database."""
    for place, need in ((path, os.R_OK | os.W_OK), (path.parent, os.W_OK | os.X_OK)):
        if not os.access(place, need, effective_ids=True):
            raise NotAllowed(
                "state-read-only",
                f"{place} cannot be written",
                "make it writable, or use another state directory",
            )


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite.connect(path)
    try:
        schema.migrate(connection, schema.usable_version(connection, path))
        sqlite.prepare_for_writing(connection)
        sqlite.checkpoint(connection)
        if missing := sqlite.missing_pages(connection, path):
            raise damaged(path, f"its last {missing} pages are missing")
    except BaseException:
        connection.close()
        raise
    return connection


def _unreachable(path: Path, error: OSError) -> Problem:
    reason = os.strerror(error.errno) if error.errno else str(error)
    return NotAllowed(
        "state-not-writable",
        f"{path} cannot be opened ({reason})",
        "check its permissions and disk, or use another state directory",
    )


class Store(Reader):
    """The database of a state directory: what is written to it, and what `Reader` tells of it.

    One at a time is open for writing: whoever holds the state directory sees to that.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        super().__init__(path)
        self._connection = connection
        self._waits = True
        """Whether a write waits for a lock that another program holds."""

    @classmethod
    def open(cls, path: Path, create: bool = True) -> Store:
        """The store at `path`, brought to this version's schema.

        Raises:
            Problem: there is none and `create` is False; or it is not ours, damaged, of a newer
                version, another user's, or cannot be written. It is left as it was.
        """
        return cls(path, open_database(path, create=create))

    def load(self) -> StoredState:
        """Load all that has not ended; call it before the first `write`."""
        with translated(self.path):
            return loading.load(self._connection)

    def write(self, records: Sequence[Record], *, waits: bool = True) -> None:
        """Keep `records`: all of them are durable on return, none where it raises.

        `waits` for a moment if another program has locked the database.

        Raises:
            StoreFailure: the disk is full or does not work, or the database is locked.
        """
        batch = WriteSet(records)
        cursor = self._connection.cursor()
        try:
            if waits is not self._waits:
                self._waits = waits
                cursor.execute(sqlite.busy_timeout(BUSY_TIMEOUT_S if waits else 0.0))
            cursor.execute("BEGIN IMMEDIATE")
            write_batch(cursor, batch)
            cursor.execute("COMMIT")
        except BaseException:
            with translated(self.path):
                # SQLite has rolled back some failures by itself.
                if self._connection.in_transaction:
                    cursor.execute("ROLLBACK")
                raise

    def checkpoint(self) -> bool:
        """Fold the log into the database, and give a little of what is free back to the system.

        Nothing depends on when. Returns whether there is more to be given back.

        Raises:
            StoreFailure: the disk is full or does not work; nothing is lost by that.
        """
        with translated(self.path):
            more = sqlite.give_back_pages(self._connection)
            sqlite.checkpoint(self._connection)
            return more

    def close(self) -> None:
        """Close all connections."""
        super().close()
        self._connection.close()
