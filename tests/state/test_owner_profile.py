"""The profile that a machine gets as it joins, and what is proposed where nobody named one."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from iriai.config.reader import parse_configuration
from iriai.model.paths import StatePaths
from iriai.model.problem import Refused, UsageProblem
from iriai.state.owner_profile import proposals, with_profile, write_text


@pytest.fixture
def paths(tmp_path) -> StatePaths:
    return StatePaths(str(tmp_path))


def written(paths: StatePaths, text: str) -> Path:
    file = Path(paths.configuration)
    file.write_text(text)
    return file


def test_a_machine_without_a_file_gets_one_that_its_daemon_can_read(paths):
    write_text(paths, with_profile(paths, "desk"))
    file = Path(paths.configuration)
    assert file.read_text() == '[owner]\nprofile = "desk"\n'
    assert stat.S_IMODE(file.stat().st_mode) == 0o644


def test_all_that_is_there_stays(paths):
    file = written(paths, "# mine\n[machine]\ncpus = 2  # not all\n")
    file.chmod(0o640)
    write_text(paths, with_profile(paths, "laptop"))
    assert file.read_text().startswith("# mine\n[machine]\ncpus = 2  # not all\n\n[owner]\n")
    assert parse_configuration(file.read_text(), "it").owner.profile == "laptop"
    assert stat.S_IMODE(file.stat().st_mode) == 0o640


def test_a_second_try_changes_nothing(paths):
    write_text(paths, with_profile(paths, "desk"))
    before = os.stat(paths.configuration).st_ino
    write_text(paths, with_profile(paths, "desk"))
    assert os.stat(paths.configuration).st_ino == before


def test_what_its_owner_has_written_is_not_overruled(paths):
    file = written(paths, '[owner]\nprofile = "classroom"\n')
    with pytest.raises(Refused, match=r"has a section \[owner\] with another profile"):
        with_profile(paths, "desk")
    assert file.read_text() == '[owner]\nprofile = "classroom"\n'


def test_a_profile_that_is_none_is_refused(paths):
    with pytest.raises(UsageProblem, match="'dsek' is no profile"):
        with_profile(paths, "dsek")


@pytest.fixture
def laptop(tmp_path_factory) -> str:
    root = tmp_path_factory.mktemp("root")
    battery = root / "sys/class/power_supply/BAT0/type"
    battery.parent.mkdir(parents=True)
    battery.write_text("Battery\n")
    return str(root)


def test_one_is_proposed_where_a_person_may_sit_until_its_file_says_something(paths, laptop):
    [words] = proposals(paths, laptop)
    assert 'set profile = "laptop" in [owner]' in words
    written(paths, '[owner]\nprofile = "none"\n')
    assert list(proposals(paths, laptop)) == []
