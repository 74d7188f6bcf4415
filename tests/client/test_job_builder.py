"""Drafts from the process that makes them."""

import os
from pathlib import Path

import msgspec
import pytest

from iriai.client import draft, encode_environment
from iriai.model.problem import Refused, UsageProblem


def environment_of(made) -> dict[str, str]:
    return msgspec.msgpack.decode(made.environment)


def test_a_draft_takes_directory_and_environment_of_this_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FLAVOUR", "plum")
    made = draft(["make", "-j4"], name="build")
    assert made.working_directory == str(tmp_path)
    assert environment_of(made)["FLAVOUR"] == "plum"
    assert (made.command, made.name) == (("make", "-j4"), "build")


def test_a_changed_environment_is_noticed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLAVOUR", "plum")
    draft(["true"])
    monkeypatch.setenv("FLAVOUR", "peach")
    assert environment_of(draft(["true"]))["FLAVOUR"] == "peach"


def test_equal_environments_are_encoded_once():
    assert encode_environment({"A": "1"}) is encode_environment({"A": "1"})
    assert draft(["true"], env={"A": "1"}).environment is encode_environment({"A": "1"})


@pytest.mark.parametrize(
    ("cwd", "expected"),
    [("sub", "/base/sub"), ("/etc/", "/etc"), ("..", "/base/.."), ("/", "/"), (None, "/base")],
)
def test_a_directory_is_made_absolute_and_otherwise_left_as_it_is(
    cwd: str | None, expected: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(os, "getcwd", lambda: "/base")
    assert draft(["true"], cwd=cwd).working_directory == expected


def test_a_working_directory_that_is_gone_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(Refused, match=r"working directory no longer exists.*--chdir"):
        draft(["true"])


def test_what_is_not_text_is_named():
    strange = os.fsdecode(b"\xe9")
    with pytest.raises(UsageProblem, match="environment variable 'X' is not UTF-8"):
        encode_environment({"GOOD": "1", "X": strange})
    with pytest.raises(UsageProblem, match="the command is not UTF-8"):
        draft(["cat", strange])
