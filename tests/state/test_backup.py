"""A home as one file, and back: whatever may be wrong with file or directory changes nothing."""

import io
import json
import os
import sqlite3
import tarfile
import time
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from iriai.model.problem import NotFound, Problem, Refused, UsageProblem
from iriai.model.records import Incarnated
from iriai.state import restore as restore_module
from iriai.state.backup import FORMAT, back_up
from iriai.state.restore import NUMBER_MAX, restore
from iriai.state.state_directory import (
    STATE_VERSION,
    StateIdentity,
    absolute_paths,
    write_identity,
)
from iriai.store import Store
from iriai.system.lock_file import take_lock
from iriai.system.privileges import current_user
from tests.store.records import accepted, event, finished, result

CONFIGURATION = '[machine]\nname = "ume"\n'


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    """A state directory with two jobs, one of them finished."""
    directory = tmp_path_factory.mktemp("home")
    paths = absolute_paths(str(directory))
    Path(paths.configuration).write_text(CONFIGURATION)
    identity = StateIdentity(STATE_VERSION, "ume", current_user())
    write_identity(paths, identity._asdict() | {"more": "kept"})
    Path(paths.store).mkdir()
    store = Store.open(Path(paths.database))
    store.write([Incarnated(3), accepted(1), accepted(2), event(2, 1)])
    store.write([result(1), finished(1)])
    store.close()
    return directory


@pytest.fixture
def file(home: Path, tmp_path: Path) -> Path:
    made = tmp_path / "ume.iriai"
    back_up(str(home), made, force=False)
    return made


@pytest.fixture
def there(tmp_path: Path) -> Path:
    return tmp_path / "there"


def changed(file: Path, **changes: object) -> None:
    """Rewrite the manifest of a backup."""
    with tarfile.open(file) as archive:
        contents = {each.name: archive.extractfile(each).read() for each in archive}  # type: ignore[union-attr]
    manifest = json.loads(contents["manifest.json"]) | changes
    contents["manifest.json"] = json.dumps(manifest).encode()
    with tarfile.open(file, "w") as archive:
        for name, content in contents.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))


def refusal(file: Path, there: Path, **more: object) -> Problem:
    """Why the backup is not restored; nothing may be left of the attempt."""
    before = sorted(there.iterdir()) if there.exists() else None
    with pytest.raises(Problem) as raised:
        restore(file, str(there), **more)  # type: ignore[arg-type]
    assert (sorted(there.iterdir()) if there.exists() else None) == before
    return raised.value


def test_a_backup_is_for_its_owner_alone(file: Path):
    assert file.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in file.parent.iterdir()] == [file.name]


def test_a_restored_home_has_everything(home: Path, file: Path, there: Path):
    done = restore(file, str(there))
    assert (done.home, done.unfinished_jobs, done.finished_jobs) == ("ume", 1, 1)
    assert (there / "iriai.toml").read_text() == CONFIGURATION
    assert json.loads((there / "state.json").read_text())["more"] == "kept"
    store = Store.open(there / "store" / "iriai.db")
    state = store.load()
    assert [job.number for job in state.jobs] == [2]
    assert [each.number for each in store.finished_jobs()] == [1]
    assert [(row.job, row.cause.value) for row in store.history()] == [(1, "completed")]
    store.close()


def test_numbers_go_on_beyond_what_may_have_been_given_out(file: Path, there: Path):
    a_day_ago = time.time() - 86_400
    changed(file, made_wall_s=a_day_ago)
    done = restore(file, str(there))
    assert done.first_number > 2 + 86_400 * 1000
    store = Store.open(there / "store" / "iriai.db")
    state = store.load()
    assert state.next_number == done.first_number
    assert state.incarnation > 3 + 1000
    assert state.next_reservation > 1 + 1000
    store.close()


def test_the_first_number_can_be_named(file: Path, there: Path):
    for wrong in (0, 2, NUMBER_MAX + 1):
        problem = refusal(file, there, first_number=wrong)
        assert isinstance(problem, UsageProblem)
        assert "up to 2" in str(problem)
    assert restore(file, str(there), 3).first_number == 3


def test_an_old_backup_needs_the_number_named(file: Path, there: Path):
    changed(file, made_wall_s=time.time() - 100 * 86_400)
    problem = refusal(file, there)
    assert problem.code == "backup-old"
    assert "100 days" in problem.message
    restore(file, str(there), 1_000_000)


def test_a_backup_from_the_future_is_refused(file: Path, there: Path):
    changed(file, made_wall_s=time.time() + 86_400)
    assert refusal(file, there).code == "clock-wrong"


def test_a_directory_with_something_in_it_is_left_alone(file: Path, there: Path):
    there.mkdir()
    (there / "letter").write_text("dear")
    problem = refusal(file, there)
    assert (problem.code, problem.exit_code) == ("not-empty", 3)
    assert "letter" in problem.message


def test_a_directory_in_use_is_named_with_its_process(file: Path, there: Path):
    there.mkdir()
    lock = take_lock(str(there / "daemon.lock"))
    problem = refusal(file, there)
    assert problem.code == "state-in-use"
    assert str(os.getpid()) in problem.message
    os.close(lock)


def test_an_empty_directory_will_do(file: Path, there: Path):
    there.mkdir()
    assert restore(file, str(there)).unfinished_jobs == 1
    assert (there / "iriai.toml").read_text() == CONFIGURATION


def test_what_is_no_backup_is_refused(home: Path, tmp_path: Path, there: Path):
    text = tmp_path / "text"
    text.write_text("not a backup")
    empty = tmp_path / "empty"
    empty.touch()
    other = tmp_path / "other.tar"
    with tarfile.open(other, "w") as archive:
        archive.add(text)
    for file in (text, empty, other, tmp_path, home / "store" / "iriai.db"):
        assert refusal(file, there).code == "not-a-backup", file
    problem = refusal(tmp_path / "nothing", there)
    assert isinstance(problem, NotFound)


def test_damage_is_noticed_wherever_it_is(file: Path, there: Path):
    content = file.read_bytes()
    codes = set()
    for at in range(0, len(content), len(content) // 40):
        file.write_bytes(content[:at] + bytes([content[at] ^ 0x55]) + content[at + 1 :])
        try:
            restore(file, str(there))
        except Refused as problem:
            codes.add(problem.code)
            assert not there.exists()
        else:  # a byte that nobody reads
            assert (there / "state.json").exists()
            os.rename(there, there.with_name(f"{there.name}-{at}"))
    assert "backup-damaged" in codes
    for length in (len(content) // 2, 600, 100):
        file.write_bytes(content[:length])
        assert refusal(file, there).code in ("backup-damaged", "not-a-backup")


def test_one_of_a_newer_version_is_refused(file: Path, there: Path):
    changed(file, format=FORMAT + 1, novelty=True)
    assert refusal(file, there).code == "backup-newer"


def test_one_of_the_version_before_is_refused(file: Path, there: Path):
    changed(file, format=FORMAT - 1)
    problem = refusal(file, there)
    assert problem.code == "backup-older"
    assert "restore it with the version that wrote it" in problem.hint


def test_one_with_a_newer_schema_is_refused(home: Path, tmp_path: Path, there: Path, monkeypatch):
    file = tmp_path / "newer"
    monkeypatch.setattr("iriai.store.schema.MIGRATIONS", ("",) * 9999)
    newer = tmp_path / "home"
    newer.mkdir()
    for each in ("state.json", "iriai.toml"):
        (newer / each).write_text((home / each).read_text())
    (newer / "store").mkdir()
    database = newer / "store" / "iriai.db"
    database.write_bytes((home / "store" / "iriai.db").read_bytes())
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA user_version=9999")
    back_up(str(newer), file, force=False)
    monkeypatch.undo()
    problem = refusal(file, there)
    assert problem.code == "state-newer"
    assert "newer iriai" in problem.message


def test_a_restore_that_fails_at_its_end_leaves_nothing(file: Path, there: Path, monkeypatch):
    def fail(paths):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(restore_module, "_settle", fail)
    assert refusal(file, there).code == "no-space"
    assert not there.exists()


def test_a_file_that_is_there_is_replaced_only_on_demand(home: Path, file: Path):
    before = file.read_bytes()
    with pytest.raises(Refused, match="exists already; name another file, or use --force"):
        back_up(str(home), file, force=False)
    assert file.read_bytes() == before
    assert back_up(str(home), file, force=True).home == "ume"


def test_what_cannot_be_backed_up_is_said(home: Path, tmp_path: Path):
    with pytest.raises(NotFound, match="there is no home in"):
        back_up(str(tmp_path), tmp_path / "file", force=False)
    with pytest.raises(NotFound, match="there is no directory"):
        back_up(str(home), tmp_path / "no" / "file", force=False)
    assert list(tmp_path.iterdir()) == []


def test_a_backup_is_of_one_moment_while_others_write(home: Path, tmp_path: Path, there: Path):
    paths = absolute_paths(str(home))
    store = Store.open(Path(paths.database))
    try:
        for number in range(100, 110):
            store.write([accepted(number), result(number), finished(number)])
            back_up(str(home), tmp_path / f"{number}", force=False)
        with tarfile.open(tmp_path / "104") as archive:
            member = archive.extractfile("manifest.json")
            assert member is not None
            assert msgspec.json.decode(member.read())["next_number"] == 105
    finally:
        store.close()
    assert restore(tmp_path / "104", str(there)).finished_jobs >= 5


def test_the_rc_file_is_in_a_backup_where_there_is_one(home: Path, tmp_path: Path, there: Path):
    rc = Path(absolute_paths(str(home)).rc)
    try:
        rc.write_text("queue set 1 state=enabled\n")
        back_up(str(home), tmp_path / "with.iriai", force=False)
        rc.unlink()
        rc.symlink_to("/etc/passwd")
        back_up(str(home), tmp_path / "link.iriai", force=False)
    finally:
        rc.unlink()
    restore(tmp_path / "with.iriai", str(there))
    assert (there / "iriai.rc").read_text() == "queue set 1 state=enabled\n"
    assert (there / "iriai.rc").stat().st_mode & 0o777 == 0o600
    with tarfile.open(tmp_path / "link.iriai") as archive:
        assert "iriai.rc" not in archive.getnames()
