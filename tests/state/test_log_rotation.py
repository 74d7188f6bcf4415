"""Logs that are moved aside when they have grown, and those that write them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from iriai.model.paths import StatePaths
from iriai.state.log_rotation import LogRotation, shift


@pytest.fixture
def paths(tmp_path: Path) -> StatePaths:
    (tmp_path / "log").mkdir()
    return StatePaths(str(tmp_path))


def limits(paths: StatePaths, bytes_max: int, files: int) -> None:
    settings = {"log_bytes_max": bytes_max, "log_files": files}
    Path(paths.directory, "machine.json").write_text(json.dumps(settings))


def names(paths: StatePaths) -> list[str]:
    return sorted(path.name for path in Path(paths.log).glob("daemon.log*"))


def test_what_has_grown_is_moved_aside_and_the_oldest_goes(paths: StatePaths):
    limits(paths, 10, 2)
    rotation = LogRotation(paths, os.geteuid())
    log = Path(paths.log_of("daemon"))
    rotation.prepare()
    for number in range(5):
        log.write_text(f"number {number}, long enough")
        rotation.rotate_due()
    assert names(paths) == ["daemon.log", "daemon.log.1", "daemon.log.2"]
    assert log.read_text() == ""
    assert Path(f"{log}.1").read_text() == "number 4, long enough"
    assert Path(f"{log}.2").read_text() == "number 3, long enough"


def test_what_is_small_stays(paths: StatePaths):
    limits(paths, 10, 2)
    log = Path(paths.log_of("daemon"))
    log.write_text("0123456789")
    LogRotation(paths, os.geteuid()).rotate_due()
    assert names(paths) == ["daemon.log"]


def test_none_is_kept_where_none_is_wanted_and_fewer_where_fewer_are(paths: StatePaths):
    log = Path(paths.log_of("daemon"))
    for number in range(1, 6):
        Path(f"{log}.{number}").touch()
    log.write_text("new")
    shift(log, 2)
    assert names(paths) == ["daemon.log.1", "daemon.log.2"]
    log.write_text("newer")
    shift(log, 0)
    assert names(paths) == []


def test_a_rotation_that_was_cut_short_loses_nothing(paths: StatePaths):
    log = Path(paths.log_of("daemon"))
    log.write_text("new")
    Path(f"{log}.1").write_text("one")
    Path(f"{log}.3").write_text("three")  # 2 had just become 3
    shift(log, 4)
    texts = [Path(f"{log}.{number}").read_text() for number in (1, 2, 4)]
    assert texts == ["new", "one", "three"]


def test_one_that_somebody_moved_away_is_made_again(paths: StatePaths):
    rotation = LogRotation(paths, os.geteuid())
    rotation.prepare()
    os.rename(paths.log_of("launcher"), f"{paths.log_of('launcher')}.old")
    rotation.rotate_due()
    assert Path(paths.log_of("launcher")).read_text() == ""


WRITER = """
import logging, os, sys
from iriai.launcher.system.log_file import set_up_logging
handler = set_up_logging(sys.argv[1], "part")
log = logging.getLogger("x")
for line in sys.stdin:
    log.info(line.strip())
    handler.follow(now=True)
    print("done", file=sys.__stdin__ and open(sys.argv[2], "a"), flush=True)
"""


class Writing:
    """A process whose standard error leads to a file."""

    def __init__(self, path: Path, leads_to: Path) -> None:
        self.heard = path.with_name("heard")
        os.mkfifo(self.heard)
        with leads_to.open("a") as stream:
            self.process = subprocess.Popen(
                [sys.executable, "-c", WRITER, str(path), str(self.heard)],
                stdin=subprocess.PIPE,
                stdout=stream,
                stderr=stream,
                text=True,
            )

    def say(self, text: str) -> None:
        """Have it write a line, and look."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{text}\n")
        self.process.stdin.flush()
        assert self.heard.read_text() == "done\n"

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.wait(30) == 0


def test_a_writer_follows_its_file(tmp_path: Path):
    log = tmp_path / "part.log"
    writing = Writing(log, log)
    writing.say("one")
    log.rename(tmp_path / "part.log.1")
    writing.say("two")
    writing.say("three")
    writing.close()
    assert [line.split()[-1] for line in (tmp_path / "part.log.1").read_text().splitlines()] == [
        "one",
        "two",
    ]
    assert log.read_text().split()[-1] == "three"


def test_a_writer_that_leads_elsewhere_stays_there(tmp_path: Path):
    log, terminal = tmp_path / "part.log", tmp_path / "terminal"
    log.touch()
    writing = Writing(log, terminal)
    writing.say("one")
    writing.say("two")
    writing.close()
    assert log.read_text() == ""
    assert len(terminal.read_text().splitlines()) == 2
