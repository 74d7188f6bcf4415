"""The rc file is read only if nobody but root and the owner can have written it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from iriai.model.bounds import CONSOLE_BYTES_MAX
from iriai.model.paths import StatePaths
from iriai.model.problem import NotFound, Refused, UsageProblem
from iriai.state.rc_file import read_rc

LINE = "queue set 1 state=enabled\n"


@pytest.fixture
def paths(tmp_path: Path) -> StatePaths:
    return StatePaths(str(tmp_path))


@pytest.fixture
def rc(paths: StatePaths) -> Path:
    file = Path(paths.rc)
    file.write_text(LINE)
    file.chmod(0o644)
    return file


def refusal(paths: StatePaths, given: str = "") -> str:
    found = read_rc(paths, given)
    assert found is not None
    assert found.lines == ()
    assert isinstance(found.problem, Refused | UsageProblem)
    return str(found.problem)


def test_a_file_of_the_owner_is_read(paths, rc):
    found = read_rc(paths, "")
    assert (found.path, found.problem) == (str(rc), None)
    assert [line.text for line in found.lines] == [LINE.strip()]


def test_without_a_file_there_is_nothing_to_run(paths):
    assert read_rc(paths, "") is None
    missing = read_rc(paths, "/nowhere/night.rc")
    assert isinstance(missing.problem, NotFound)


def test_a_symbolic_link_is_not_followed(paths, rc):
    rc.rename(rc.with_name("elsewhere"))
    rc.symlink_to("elsewhere")
    assert "it is a symbolic link" in refusal(paths)


@pytest.mark.parametrize("mode", [0o664, 0o646, 0o666])
def test_what_others_may_write_is_not_run(paths, rc, mode):
    rc.chmod(mode)
    assert "others than root and you can have written it" in refusal(paths)


def test_a_second_name_of_a_file_is_not_run(paths, rc):
    os.link(rc, rc.with_name("another"))
    assert "no plain file" in refusal(paths)


@pytest.mark.root
def test_what_belongs_to_another_user_is_not_run(paths, rc):
    os.chown(rc, 65_534, 65_534)
    assert "others than root and you can have written it" in refusal(paths)


def test_a_pipe_or_a_directory_blocks_nothing(paths, rc):
    rc.unlink()
    os.mkfifo(rc)
    assert "is not run" in refusal(paths)
    rc.unlink()
    rc.mkdir()
    assert "is not run" in refusal(paths)
    assert "is not run" in refusal(paths, "/dev/zero")


def test_a_huge_file_is_not_read(paths, rc):
    with rc.open("r+b") as file:
        file.truncate(1 << 40)  # without a block of the disk
    assert f"more than {CONSOLE_BYTES_MAX} bytes" in refusal(paths)


def test_what_is_no_text_is_refused(paths, rc):
    rc.write_bytes(b"\x7fELF\xff\xff\n")
    assert "is not UTF-8 text" in refusal(paths)
