"""A drain that was asked while no daemon ran: who is believed, and what a mangled file does."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iriai.model.paths import StatePaths
from iriai.model.problem import ExitCode, NotAllowed, NotFound, Refused, UsageProblem
from iriai.protocol.messages.effects import Part
from iriai.state.kept_drain import (
    BYTES_MAX,
    REASON_LENGTH_MAX,
    keep_drain,
    read_kept_drain,
)
from iriai.state.role import RequestedRole
from iriai.state.state_directory import prepare

ASKED = b'asked\n{"reason":"new disk","by":"ann","asked_wall_s":1.0}\n'


@pytest.fixture
def paths(tmp_path):
    made = StatePaths(str(tmp_path))
    me = None if os.geteuid() else "root"
    prepare(made, home="ume", home_given=True, user=me)
    return made


def kept_reason(paths: StatePaths) -> object:
    """The reason that a daemon would find; a dash if nothing is kept."""
    kept = read_kept_drain(paths)
    if kept is None:
        return "-"
    os.close(kept.descriptor)
    return kept.request.reason


def keep(paths: StatePaths, reason: str | None, node: str = "") -> None:
    """Keep a request, as a command does that ends at once."""
    name, kept = keep_drain(paths, node, reason)
    assert name == "ume"
    os.close(kept.descriptor)


def test_what_is_kept_is_found_until_a_daemon_has_taken_it(paths):
    assert kept_reason(paths) == "-"
    keep(paths, "new disk")
    assert [kept_reason(paths), kept_reason(paths)] == ["new disk", "new disk"]
    assert Path(paths.drain).stat().st_mode & 0o777 == 0o600
    read_kept_drain(paths).take()
    assert kept_reason(paths) == "-"
    keep(paths, None, "ume")
    assert kept_reason(paths) is None


def test_the_later_of_two_requests_counts_and_is_not_marked_for_the_earlier(paths):
    keep(paths, "first")
    first = read_kept_drain(paths)
    keep(paths, "second")
    first.take()
    assert kept_reason(paths) == "second"


def test_requests_at_once_leave_one_that_is_whole(paths):
    reasons = [f"reason {number}" * 20 for number in range(16)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda reason: keep(paths, reason), reasons))
    assert kept_reason(paths) in reasons


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"asked",
        b"asked\n",
        b"asked\n{}",
        b"asked\nnull",
        b"maybe\n" + ASKED[6:],
        ASKED[:-10],
        ASKED.replace(b"new disk", b""),
        ASKED.replace(b"new disk", b"x" * (REASON_LENGTH_MAX + 1)),
        ASKED.replace(b"new disk", b"\xff"),
        ASKED.replace(b"ann", b"a" * 300),
        ASKED.replace(b"1.0", b"-1.0"),
        ASKED.replace(b"1.0", b"1e300"),
        ASKED.replace(b"1.0", b"NaN"),
        ASKED.replace(b'"by"', b'"uid":0,"by"'),
        ASKED + b" " * BYTES_MAX,
        b"asked\n" + b"[" * (BYTES_MAX - 6),
    ],
)
def test_a_mangled_file_refuses_the_start_and_a_new_request_mends_it(paths, content):
    Path(paths.drain).write_bytes(content)
    Path(paths.drain).chmod(0o600)
    with pytest.raises(Refused, match="whether the machine is drained is unknown") as caught:
        read_kept_drain(paths)
    assert caught.value.code == "drain-unreadable"
    assert "iriai resume" in caught.value.hint
    keep(paths, "new disk")
    assert kept_reason(paths) == "new disk"


@settings(max_examples=40)
@given(content=st.binary(max_size=100))
def test_no_content_starts_a_machine_undrained(tmp_path_factory, content):
    paths = StatePaths(str(tmp_path_factory.mktemp("state")))
    Path(paths.drain).write_bytes(b"asked\n" + content)
    with pytest.raises(Refused):
        read_kept_drain(paths)


@pytest.mark.parametrize("way", ["symlink", "link", "fifo", "directory", "writable"])
def test_only_a_file_that_nobody_else_can_have_written_is_read(paths, tmp_path, way):
    keep(paths, "new disk")
    if way == "writable":
        os.chmod(paths.drain, 0o620)
    else:
        os.rename(paths.drain, tmp_path / "elsewhere")
        {
            "symlink": lambda: os.symlink(tmp_path / "elsewhere", paths.drain),
            "link": lambda: os.link(tmp_path / "elsewhere", paths.drain),
            "fifo": lambda: os.mkfifo(paths.drain),
            "directory": lambda: os.mkdir(paths.drain),
        }[way]()
    with pytest.raises(Refused):
        read_kept_drain(paths)


@pytest.mark.root
def test_a_file_of_somebody_else_refuses_the_start(paths, people):
    keep(paths, "new disk")
    os.chown(paths.drain, people.eve.uid, people.eve.gid)
    with pytest.raises(Refused, match="another user can have written it"):
        read_kept_drain(paths)


@pytest.mark.root
def test_root_keeps_nothing_in_a_directory_of_somebody_else(people, tmp_path):
    state = tmp_path / "state"
    state.mkdir()
    os.chown(state, people.eve.uid, people.eve.gid)
    with pytest.raises(NotAllowed) as caught:
        keep_drain(StatePaths(str(state)), "", "new disk")
    assert caught.value.exit_code is ExitCode.NOT_ALLOWED
    assert people.eve.name in str(caught.value)
    assert list(state.iterdir()) == []


def test_another_machine_cannot_be_drained_without_a_daemon(paths):
    with pytest.raises(NotFound, match="momo is not the machine"):
        keep_drain(paths, "momo", "new disk")
    assert not Path(paths.drain).exists()


def test_a_machine_that_runs_no_tasks_is_not_drained(tmp_path):
    paths = StatePaths(str(tmp_path))
    me = None if os.geteuid() else "root"
    front = RequestedRole(parts=(Part.HOME, Part.BROKER))
    prepare(paths, home="ume", home_given=True, user=me, wanted=front)
    with pytest.raises(NotFound, match="ume is not the machine"):
        keep_drain(paths, "", "new disk")


@pytest.mark.parametrize("reason", ["", "x" * (REASON_LENGTH_MAX + 1), "\udcff"])
def test_a_reason_is_one_that_people_read(paths, reason):
    with pytest.raises(UsageProblem):
        keep_drain(paths, "", reason)
    assert not Path(paths.drain).exists()


def test_every_reason_that_is_accepted_can_be_read_again(paths):
    keep(paths, "\x00" * REASON_LENGTH_MAX)
    assert kept_reason(paths) == "\x00" * REASON_LENGTH_MAX
    keep(paths, "\U0001f9ea" * REASON_LENGTH_MAX)
    assert json.loads(Path(paths.drain).read_bytes()[6:])["reason"] == kept_reason(paths)


def test_no_state_directory_keeps_nothing(tmp_path):
    assert keep_drain(StatePaths(str(tmp_path / "nowhere")), "", "new disk") is None
    assert keep_drain(StatePaths(str(tmp_path)), "", "new disk") is None
