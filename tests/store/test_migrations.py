"""Numbered migrations bring a database to the schema of this version, each once, or not at all."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from iriai.model.history import HistoryRow
from iriai.model.records import KeySet, SectionSet
from iriai.store import Store, schema
from tests.store.records import ANN, accepted, booked, finished, reserved, result

LATER = (
    *schema.MIGRATIONS,
    "ALTER TABLE jobs ADD COLUMN colour TEXT NOT NULL DEFAULT 'none';",
    "UPDATE jobs SET colour = 'red' WHERE colour = 'none';",
)
"""Of an iriai to come."""


def version_of(path):
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("PRAGMA user_version").fetchone()[0]


def test_a_new_database_has_had_every_migration(tmp_path, monkeypatch):
    monkeypatch.setattr(schema, "MIGRATIONS", LATER)
    path = tmp_path / "iriai.db"
    Store.open(path).close()
    assert version_of(path) == len(LATER)


@pytest.mark.parametrize("had", range(len(schema.MIGRATIONS), len(LATER)))
def test_a_database_gets_the_migrations_that_it_lacks_and_keeps_its_rows(path, monkeypatch, had):
    with closing(Store.open(path)) as store:
        store.write([accepted(1, ANN), result(1), finished(1)])
    for known in (had, len(LATER)):
        monkeypatch.setattr(schema, "MIGRATIONS", LATER[:known])
        Store.open(path).close()
    with closing(Store.open(path)) as store:
        assert [row.job for row in store.history()] == [1]
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT colour FROM jobs").fetchall() == [("red",)]
    assert version_of(path) == len(LATER)


def test_a_migration_that_fails_has_not_begun(path, monkeypatch):
    with closing(sqlite3.connect(path)) as connection:
        before = list(connection.iterdump())
        monkeypatch.setattr(schema, "MIGRATIONS", (*LATER, "DROP TABLE jobs; DROP TABLE gone;"))
        with pytest.raises(sqlite3.OperationalError, match="no such table: gone"):
            Store.open(path)
        assert list(connection.iterdump()) == before
    assert version_of(path) == len(schema.MIGRATIONS) - 3


def test_queues_that_an_earlier_version_was_told_to_set_are_there(tmp_path, monkeypatch):
    path = tmp_path / "iriai.db"
    monkeypatch.setattr(schema, "MIGRATIONS", schema.MIGRATIONS[:3])
    Store.open(path).close()
    monkeypatch.undo()
    with closing(sqlite3.connect(path)) as connection, connection:
        row = (12, '[["state","enabled"],["group","läb"]]', "ann", 5.0)
        connection.execute("INSERT INTO queues VALUES (?, ?, ?, ?)", row)
    with closing(Store.open(path)) as store:
        keys = (KeySet("state", "enabled", "ann"), KeySet("group", "läb", "ann"))
        assert store.load().settings == [SectionSet("queues", "12", keys, "ann", 5.0)]


def test_a_database_from_before_reservations_takes_them(tmp_path, monkeypatch):
    path = tmp_path / "iriai.db"
    monkeypatch.setattr(schema, "MIGRATIONS", schema.MIGRATIONS[:8])
    Store.open(path).close()
    monkeypatch.undo()
    with closing(Store.open(path)) as store:
        state = store.load()
        assert (state.reservations, state.next_reservation, state.bookings) == ([], 1, [])
        store.write([reserved(1), booked(1)])
    with closing(Store.open(path)) as store:
        assert store.load().reservations == [reserved(1).reservation]
        assert store.load().bookings == [booked(1).booking]


def test_the_view_of_the_history_has_the_columns_of_its_rows(path):
    with closing(sqlite3.connect(path)) as connection:
        columns = [each[1] for each in connection.execute("PRAGMA table_info(history)")]
    fields = [name.removeprefix("encoded_") for name in HistoryRow._fields]
    assert columns == fields
