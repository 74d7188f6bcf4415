"""The record of an outage: what it says, and whom its reader believes."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iriai.model.paths import StatePaths
from iriai.state.outage import BYTES_MAX, OutageRecord, read_outage


@pytest.fixture
def paths(tmp_path):
    return StatePaths(str(tmp_path))


def recorded(paths: StatePaths) -> dict[str, object]:
    """What the file says, after a supervisor has recorded an outage."""
    OutageRecord(paths).failed(7, 30.0, has_served=True)
    said: dict[str, object] = json.loads(Path(paths.outage).read_text())
    return said


def test_an_outage_goes_on_until_a_daemon_has_served(paths):
    record = OutageRecord(paths)
    assert (read_outage(paths), record.is_open) == (None, False)
    record.failed(-signal.SIGKILL, 0.0, has_served=True)
    first = read_outage(paths)
    assert (first.failures, first.exit_code, first.signal) == (0, None, "SIGKILL")
    record.failed(2, 0.1, has_served=False)
    record.failed(None, 30.0, has_served=False)
    last = read_outage(paths)
    assert (last.failures, last.exit_code, last.signal) == (2, None, "")
    assert last.since_wall_s == first.since_wall_s
    assert last.next_start_wall_s >= last.since_wall_s + 30.0
    assert last.supervisor_pid == os.getpid()
    record.failed(1, 0.0, has_served=True)
    assert read_outage(paths).failures == 0
    assert read_outage(paths).since_wall_s > first.since_wall_s
    record.over()
    assert (read_outage(paths), record.is_open) == (None, False)


def test_the_next_supervisor_goes_on_with_the_outage(paths):
    OutageRecord(paths).failed(2, 0.1, has_served=False)
    before = read_outage(paths)
    OutageRecord(paths).failed(2, 0.1, has_served=False)
    assert read_outage(paths).since_wall_s == before.since_wall_s
    assert read_outage(paths).failures == 2


def test_every_user_may_read_the_record_and_nobody_else_write_it(paths):
    recorded(paths)
    assert Path(paths.outage).stat().st_mode & 0o777 == 0o644


def test_a_disk_that_takes_no_record_stops_nobody(paths):
    Path(f"{paths.outage}.new").mkdir()
    record = OutageRecord(paths)
    record.failed(2, 0.1, has_served=True)
    assert record.is_open
    assert read_outage(paths) is None


@pytest.mark.parametrize("supervisor", ["", "1", "{pid}", "{pid} 1 {boot}", "-1 0 x", "9" * 4000])
def test_a_supervisor_is_believed_only_with_its_start_and_boot(paths, supervisor):
    said = recorded(paths)
    boot = str(said["supervisor"]).split()[2]
    said["supervisor"] = supervisor.format(pid=os.getpid(), boot=boot)
    Path(paths.outage).write_text(json.dumps(said))
    found = read_outage(paths)
    assert found is None or found.supervisor_pid is None


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("since_wall_s", float("nan")),
        ("since_wall_s", 1e300),
        ("since_wall_s", -1),
        ("since_wall_s", [1]),
        ("next_start_wall_s", float("inf")),
        ("next_start_wall_s", None),
        ("failures", float("inf")),
        ("failures", {}),
        ("exit_code", "seven"),
    ],
)
def test_a_field_that_is_no_such_thing_is_no_record(paths, field, value):
    said = recorded(paths)
    Path(paths.outage).write_text(json.dumps(said | {field: value}))
    assert read_outage(paths) is None
    OutageRecord(paths).failed(1, 0.0, has_served=False)
    assert read_outage(paths).failures == 1


@settings(max_examples=40)
@given(content=st.one_of(st.binary(max_size=200), st.text(max_size=50).map(str.encode)))
def test_no_content_is_an_error(tmp_path_factory, content):
    paths = StatePaths(str(tmp_path_factory.mktemp("state")))
    Path(paths.outage).write_bytes(content)
    assert read_outage(paths) is None


@pytest.mark.parametrize("content", [b"[" * BYTES_MAX, b"{}" + b" " * BYTES_MAX, b"null", b""])
def test_a_record_that_is_deep_or_long_is_none(paths, content):
    Path(paths.outage).write_bytes(content)
    assert read_outage(paths) is None


def test_only_a_regular_file_is_read(paths, tmp_path):
    recorded(paths)
    os.rename(paths.outage, tmp_path / "elsewhere")
    os.symlink(tmp_path / "elsewhere", paths.outage)
    assert read_outage(paths) is None
    os.unlink(paths.outage)
    os.mkfifo(paths.outage)
    assert read_outage(paths) is None
    os.unlink(paths.outage)
    os.link(tmp_path / "elsewhere", paths.outage)
    assert read_outage(paths) is None


def test_a_record_that_others_may_write_is_none(paths):
    recorded(paths)
    os.chmod(paths.outage, 0o666)
    assert read_outage(paths) is None


@pytest.mark.root
def test_a_record_of_somebody_else_is_none(paths, people):
    recorded(paths)
    os.chown(paths.outage, people.eve.uid, people.eve.gid)
    assert read_outage(paths) is None
