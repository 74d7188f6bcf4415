"""The schema is what the migrations make, and Alembic is not there where it is not needed."""

from __future__ import annotations

import sqlite3
import subprocess
import sys

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import inspect
from sqlalchemy.exc import OperationalError

from iriai.model.problem import Problem
from iriai.store import Store, schema, sqlite
from iriai.store.codec import encode
from iriai.store.migrate import MIGRATIONS, migrate_here
from tests.store.records import spec


def test_the_migrations_make_the_tables_of_the_schema(path):
    with sqlite.migration_engine(path).connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, schema.metadata) == []


def test_the_view_has_the_columns_that_queries_name(path):
    engine = sqlite.reading_engine(path)
    columns = [each["name"] for each in inspect(engine).get_columns("history")]
    engine.dispose()
    assert columns == [each.name for each in schema.history.columns]


def test_revisions_are_ascending_numbers_and_the_last_is_the_schema_s():
    scripts = ScriptDirectory(str(MIGRATIONS))
    revisions = [each.revision for each in scripts.walk_revisions()][::-1]
    assert revisions == [f"{number:04}" for number in range(1, len(revisions) + 1)]
    assert scripts.get_heads() == [schema.REVISION]


@pytest.mark.parametrize("is_new", [True, False])
def test_a_daemon_never_loads_alembic(tmp_path, path, is_new):
    code = (
        "import sys; from pathlib import Path; from iriai.store import Store\n"
        "Store.open(Path(sys.argv[1])).close()\n"
        "print([name for name in sys.modules if name.startswith('alembic')])\n"
    )
    place = tmp_path / "new.db" if is_new else path
    command = [sys.executable, "-c", code, str(place)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "[]\n"


def test_a_migration_that_fails_has_not_begun(tmp_path):
    path = tmp_path / "iriai.db"
    stumbling_block = sqlite3.connect(path)
    stumbling_block.execute("CREATE TABLE ledger (is_in_the_way TEXT)")
    before = list(stumbling_block.iterdump())
    with pytest.raises(OperationalError, match="already exists"):
        migrate_here(path)
    assert list(stumbling_block.iterdump()) == before
    stumbling_block.close()


def test_why_a_database_could_not_be_migrated_is_told(path):
    older = sqlite.connect(path)
    older.execute("UPDATE alembic_version SET version_num='0000'")
    older.close()
    with pytest.raises(Problem, match="could not be brought to the schema of this version") as told:
        Store.open(path)
    assert told.value.code == "state-not-migrated"
    assert "0000" in told.value.message


def test_a_store_of_the_first_schema_keeps_its_history(tmp_path):
    path = tmp_path / "iriai.db"
    path.touch(mode=0o600)
    engine = sqlite.migration_engine(path)
    config = Config()
    config.set_main_option("path_separator", "os")
    config.set_main_option("script_location", str(MIGRATIONS))
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0001")
    engine.dispose()
    old = sqlite3.connect(path)
    old.execute(
        "INSERT INTO jobs VALUES (1, 'lab', 'ann', 'ann', 'job', ?, 1.0, NULL, NULL, NULL)",
        (encode(spec()),),
    )
    old.execute(
        "INSERT INTO attempts VALUES"
        " (1, 0, 1, 'ume', 'completed', 0, NULL, 2.0, 0, 0, 0, 1.0, 3.0, 2.0, 2.0, '')"
    )
    old.commit()
    old.close()
    store = Store.open(path)
    [row] = store.history()
    store.close()
    assert (row.job, row.charge_s, row.factors, row.user_name) == (1, 2.0, (), "ann")
