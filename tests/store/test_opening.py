"""Every kind of file that is not a database of ours that we may use, and what is said about it."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from iriai.model.problem import NotAllowed, NotFound, Problem, Refused
from iriai.store import Store, StoreFailure, schema, sqlite
from tests.store.records import accepted, event

NOBODY = 65534
"""A user who owns nothing; tests that need other users run as root."""


def fill(store, jobs=200):
    store.write([accepted(number) for number in range(1, jobs + 1)])
    store.write([event(number, 1) for number in range(1, jobs + 1)])


def open_and_load(path, **options):
    store = Store.open(path, **options)
    try:
        store.load()
    finally:
        store.close()


def refusal(path, family=Problem, **options):
    """The problem that opening `path` (and reading all of it) raises."""
    with pytest.raises(family) as caught:
        open_and_load(path, **options)
    assert str(path) in caught.value.message or str(path.parent) in caught.value.message
    assert caught.value.hint
    return caught.value


def told_to_nobody(path):
    """What an ordinary user is told who opens `path`."""
    code = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from iriai.model.problem import Problem\n"
        "from iriai.store import Store\n"
        "os.setgroups([])\n"
        f"os.setgid({NOBODY})\n"
        f"os.setuid({NOBODY})\n"
        "try: Store.open(Path(sys.argv[1]))\n"
        "except Problem as problem: print(problem.code, problem)\n"
    )
    command = [sys.executable, "-c", code, str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def public(path):
    """The database in a place that every user can reach, and that no other run of tests closes."""
    with tempfile.TemporaryDirectory(prefix="iriai-test-") as place:
        Path(place).chmod(0o755)
        yield Path(shutil.copy(path, place))


def test_a_new_database_is_only_for_its_owner(tmp_path):
    path = tmp_path / "iriai.db"
    store = Store.open(path)
    fill(store)
    modes = {each.name: each.stat().st_mode & 0o777 for each in tmp_path.iterdir()}
    store.close()
    assert modes == {"iriai.db": 0o600, "iriai.db-wal": 0o600, "iriai.db-shm": 0o600}


@pytest.mark.root
def test_what_root_makes_belongs_to_the_owner_of_the_directory(tmp_path):
    os.chown(tmp_path, NOBODY, NOBODY)
    store = Store.open(tmp_path / "iriai.db")
    fill(store)
    owners = {each.name: each.stat().st_uid for each in tmp_path.iterdir()}
    store.close()
    assert owners == {"iriai.db": NOBODY, "iriai.db-wal": NOBODY, "iriai.db-shm": NOBODY}


def test_a_python_with_an_old_sqlite_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite, "OLDEST_VERSION", (99, 0, 0))
    with pytest.raises(Refused, match=r"iriai needs 99\.0\.0"):
        Store.open(tmp_path / "iriai.db")
    assert list(tmp_path.iterdir()) == []


def test_without_a_directory_there_is_no_store(tmp_path):
    assert refusal(tmp_path / "gone" / "iriai.db", NotFound).code == "no-state"


def test_none_is_made_where_one_must_exist(tmp_path):
    assert refusal(tmp_path / "iriai.db", NotFound, create=False).code == "no-state"
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_start_is_simply_repeated(tmp_path):
    fresh = tmp_path / "iriai.db.new"
    fresh.write_bytes(b"half a data")
    Store.open(tmp_path / "iriai.db").close()
    assert [each.name for each in tmp_path.iterdir()] == ["iriai.db"]


def test_a_directory_is_no_database(tmp_path):
    path = tmp_path / "iriai.db"
    path.mkdir()
    assert refusal(path, Refused).code == "state-foreign"


def test_a_file_of_something_else_is_left_alone(tmp_path):
    path = tmp_path / "iriai.db"
    path.write_text("my notes, not to be overwritten\n")
    assert refusal(path, Refused).code == "state-foreign"
    assert path.read_text() == "my notes, not to be overwritten\n"


def test_a_database_of_another_program_is_left_alone(tmp_path):
    path = tmp_path / "iriai.db"
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE bookmarks (address TEXT)")
    other.close()
    before = path.read_bytes()
    assert refusal(path, Refused).code == "state-foreign"
    assert path.read_bytes() == before


def test_a_database_of_a_newer_version_is_left_alone(path):
    newer = sqlite.connect(path)
    newer.execute("PRAGMA user_version=999")
    newer.close()
    before = path.read_bytes()
    problem = refusal(path, Refused)
    assert problem.code == "state-newer"
    assert f"(schema 999, this one knows {len(schema.MIGRATIONS)})" in problem.message
    assert path.read_bytes() == before


@pytest.mark.parametrize("kept", [0.02, 0.3, 0.6, 0.999])
def test_a_torn_database_is_called_damaged(store, path, kept):
    fill(store, 2000)
    store.close()
    os.truncate(path, int(path.stat().st_size * kept))
    assert refusal(path, StoreFailure).code == "state-damaged"


def test_a_database_with_a_page_of_rubbish_is_called_damaged(store, path):
    fill(store, 2000)
    store.close()
    with path.open("r+b") as file:
        for page in range(4096, path.stat().st_size, 4096):
            file.seek(page)
            file.write(os.urandom(4096))
    assert refusal(path, StoreFailure).code == "state-damaged"


def test_an_emptied_database_is_not_begun_anew(path):
    os.truncate(path, 0)
    assert refusal(path, StoreFailure).code == "state-damaged"


def test_a_log_without_its_database_is_kept(store, path):
    fill(store)
    path.unlink()
    log = path.with_name("iriai.db-wal")
    kept = log.read_bytes()
    assert refusal(path, StoreFailure).code == "state-damaged"
    assert log.read_bytes() == kept
    assert not path.exists()


def test_a_database_that_does_not_name_its_schema_is_called_damaged(path):
    ours = sqlite.connect(path)
    ours.execute("PRAGMA user_version=0")
    ours.close()
    assert refusal(path, StoreFailure).code == "state-damaged"


def test_a_database_that_is_locked_for_good_is_told(path, monkeypatch):
    monkeypatch.setattr(sqlite, "BUSY_TIMEOUT_S", 0.01)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("PRAGMA locking_mode=EXCLUSIVE")
    other.execute("BEGIN EXCLUSIVE")
    assert refusal(path, StoreFailure).code == "state-in-use"
    other.close()


@pytest.mark.root
def test_another_user_is_told_whose_it_is(public):
    told = told_to_nobody(public)
    assert told.startswith("state-of-another")
    assert "belongs to user 'root'" in told


@pytest.mark.root
def test_a_file_that_may_not_be_written_is_told(public):
    os.chown(public.parent, NOBODY, NOBODY)
    os.chown(public, NOBODY, NOBODY)
    public.chmod(0o400)
    assert f"state-read-only {public} cannot be written" in told_to_nobody(public)


@pytest.mark.root
def test_a_directory_that_may_not_be_written_is_told(public):
    os.chown(public, NOBODY, NOBODY)
    assert f"state-read-only {public.parent} cannot be written" in told_to_nobody(public)


@pytest.mark.root
def test_a_read_only_disk_is_told(disk, empty_database):
    path = disk.directory / "iriai.db"
    shutil.copyfile(empty_database, path)
    disk.make_read_only()
    assert refusal(path, NotAllowed).code == "state-read-only"


@pytest.mark.root
def test_no_database_is_made_on_a_full_disk(disk):
    disk.fill()
    path = disk.directory / "iriai.db"
    assert "no space left" in refusal(path).message
    disk.make_room()
    Store.open(path).close()
