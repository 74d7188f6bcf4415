"""Set-up does what is missing, and nothing twice."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts import set_up
from tests.support.trusted_place import trusted_place


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


@pytest.fixture
def private_checkout(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """One that only its owner may enter, with room beside it for a place for all."""
    with trusted_place() as directory:
        checkout = directory / "home" / "checkout"
        (checkout / "src" / "iriai").mkdir(parents=True)
        (checkout / "scripts").mkdir()
        for name in ("LICENSE", "README.md", "hatch_build.py", "pyproject.toml"):
            (checkout / name).write_text(name)
        (checkout / "src" / "iriai" / "part.py").write_text("old = 1\n")
        (checkout / "src" / "iriai" / "part.py").chmod(0o600)
        checkout.parent.chmod(0o700)
        monkeypatch.setattr(set_up, "ROOT", checkout)
        monkeypatch.setattr(set_up, "ENVIRONMENT", checkout / ".venv")
        monkeypatch.setattr(set_up, "PLACES", directory / "places")
        yield checkout


@pytest.mark.root
def test_a_checkout_of_roots_alone_is_copied_to_where_all_may_read(private_checkout: Path):
    place = set_up.place()
    assert place.parent == set_up.PLACES
    set_up.copy_checkout(place)
    copy = place / "src" / "iriai" / "part.py"
    assert copy.read_text() == "old = 1\n"
    assert copy.stat().st_mode & 0o777 == 0o644
    assert set_up.is_open(copy.parent)
    assert (private_checkout / ".venv").resolve() == place / ".venv"


@pytest.mark.root
def test_the_copy_follows_the_checkout(private_checkout: Path):
    set_up.copy_checkout(set_up.place())
    package = private_checkout / "src" / "iriai"
    (package / "part.py").unlink()
    (package / "later").mkdir()
    (package / "later" / "part.py").write_text("new = 1\n")
    (package / "secret").symlink_to("/etc/shadow")
    untouched = set_up.place() / "LICENSE"
    before = untouched.stat().st_ino
    set_up.copy_checkout(set_up.place())
    copied = set_up.place() / "src" / "iriai"
    assert [each.name for each in copied.iterdir()] == ["later"]
    assert (copied / "later" / "part.py").read_text() == "new = 1\n"
    assert untouched.stat().st_ino == before


@pytest.mark.root
def test_a_place_that_others_may_write_is_refused(private_checkout: Path):
    set_up.PLACES.mkdir()
    set_up.PLACES.chmod(0o777)
    with pytest.raises(set_up.SetUpError, match="root alone may write: remove it"):
        set_up.copy_checkout(set_up.place())
    set_up.PLACES.rmdir()
    set_up.PLACES.symlink_to(private_checkout)
    with pytest.raises(set_up.SetUpError, match="root alone may write: remove it"):
        set_up.copy_checkout(set_up.place())


@pytest.mark.root
def test_the_place_is_removed_with_the_environment(private_checkout: Path):
    set_up.copy_checkout(set_up.place())
    set_up.remove()
    assert list(set_up.PLACES.iterdir()) == []
    assert not (private_checkout / ".venv").is_symlink()


@pytest.mark.root
def test_a_checkout_that_all_may_enter_is_its_own_place(private_checkout: Path):
    private_checkout.parent.chmod(0o755)
    assert set_up.place() == private_checkout


@pytest.mark.root
def test_a_python_of_roots_alone_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    tmp_path.chmod(0o700)
    monkeypatch.setattr("sys.base_prefix", str(tmp_path))
    monkeypatch.setattr(set_up, "PYTHONS", ("/no-such-python",))
    with pytest.raises(set_up.SetUpError, match="for all users"):
        set_up.suitable_python()


@pytest.mark.root
@pytest.mark.soak
@pytest.mark.timeout(900)
def test_make_run_works_for_root_in_a_private_clone_below_a_private_home():
    """Nothing of it is installed beforehand, and all was made under a umask of 077."""
    with trusted_place() as directory:
        home = directory / "home"
        home.mkdir(mode=0o700)
        clone = home / directory.name
        ignored = shutil.ignore_patterns("__pycache__", ".git", ".venv", ".*_cache", "build")
        shutil.copytree(set_up.ROOT, clone, ignore=ignored)
        subprocess.run(["chmod", "-R", "go-rwx", clone], check=True)
        command = f"umask 077; cd {clone}; make run; code=$?; make clean; exit $code"
        environment = {**os.environ, "HOME": str(home)}
        done = subprocess.run(
            ["sh", "-c", command], capture_output=True, text=True, check=False, env=environment
        )
        assert done.returncode == 0, done.stderr
        assert "Who got what" in done.stdout
        assert list(set_up.PLACES.glob(f"{directory.name}-*")) == []
