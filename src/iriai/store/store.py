"""One machine's durable memory."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

from iriai.model.records import Record
from iriai.model.snapshot import StoredState
from iriai.store import loading, sqlite
from iriai.store.batch import BatchWriter, WriteSet
from iriai.store.opening import open_database
from iriai.store.problems import translated
from iriai.store.reading import Reader


class Store(Reader):
    """The database of a state directory: what is written to it, and what `Reader` tells of it.

    One at a time is open for writing: whoever holds the state directory sees to that.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        super().__init__(path)
        self._connection = connection
        self._statements = BatchWriter()

    @classmethod
    def open(cls, path: Path, create: bool = True) -> Store:
        """The store at `path`, brought to this version's schema.

        Raises:
            Problem: there is none and `create` is False; or it is not ours, damaged, of a newer
                version, somebody else's, or cannot be written. It is left as it was.
        """
        return cls(path, open_database(path, create=create))

    def load(self) -> StoredState:
        """All that has not ended; before the first `write`."""
        with translated(self.path):
            return loading.load(self._connection)

    def write(self, records: Sequence[Record]) -> None:
        """Keep `records`: all of them are durable on return, none where it raises.

        Raises:
            StoreFailure: the disk is full or does not work.
        """
        batch = WriteSet(records)
        cursor = self._connection.cursor()
        with translated(self.path):
            cursor.execute("BEGIN IMMEDIATE")
            try:
                self._statements.write(cursor, batch)
                cursor.execute("COMMIT")
            except BaseException:
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
        """Give everything back to the system. Nobody writes or reads any more."""
        super().close()
        self._connection.close()
