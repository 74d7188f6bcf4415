"""Set-up does what is missing, and nothing twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import set_up


def test_only_packages_whose_sign_is_absent_are_missing(tmp_path: Path):
    present = tmp_path / "header.h"
    present.touch()
    listing = tmp_path / "packages.txt"
    listing.write_text(
        f"# a remark\n\nshell sh\nheaders {present}  # there\n"
        f"absent no-such-command\nlibrary {tmp_path}/absent.h\n"
    )
    assert set_up.missing_packages(listing) == ["absent", "library"]


def test_the_list_of_this_repository_can_be_read():
    listing = set_up.ROOT / "tests" / "debian-packages.txt"
    assert set_up.missing_packages(listing) == []


def test_an_ordinary_user_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(set_up.SetUpError, match="sudo apt-get install strace gcc"):
        set_up.install_debian(["strace", "gcc"])


def test_a_stamp_holds_until_what_it_stands_for_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(set_up, "ENVIRONMENT", tmp_path)
    monkeypatch.setattr(set_up, "STAMP", tmp_path / "stamp")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").touch()
    assert set_up.installed_extras() is None
    (tmp_path / "stamp").write_text(f"{set_up.digest()} dev plots\n")
    assert set_up.installed_extras() == {"dev", "plots"}
    (tmp_path / "stamp").write_text("another-digest dev plots\n")
    assert set_up.installed_extras() is None
    (tmp_path / "bin" / "python").unlink()
    (tmp_path / "stamp").write_text(f"{set_up.digest()} dev plots\n")
    assert set_up.installed_extras() is None


def test_the_shell_of_the_person_does_not_lead_elsewhere(monkeypatch: pytest.MonkeyPatch):
    for name in set_up.MISLEADING:
        monkeypatch.setenv(name, "/elsewhere")
    assert not set(set_up.MISLEADING) & set_up.clean_environment().keys()
