"""Why a process ended, left for whoever started it."""

import os

import pytest

from iriai.model.problem import FAMILIES
from iriai.system.exit_report import (
    ExitReport,
    announce,
    announce_started,
    ending_of,
    has_started,
    open_ending,
    read_ending,
)


@pytest.fixture
def said(tmp_path):
    path = str(tmp_path / "daemon.end")
    descriptor = open_ending(path)
    yield path, descriptor
    os.close(descriptor)


def test_who_says_nothing_has_said_nothing(said, tmp_path):
    path, _ = said
    assert read_ending(path) is None
    assert read_ending(str(tmp_path / "no such file")) is None


def test_the_last_word_counts(said):
    path, descriptor = said
    announce(descriptor, ExitReport(3, "long", "a long message " * 20, "a hint"))
    announce(descriptor, ExitReport(0, kill=True))
    assert read_ending(path) == ExitReport(0, kill=True)


def test_a_new_process_has_said_nothing_yet(said):
    path, descriptor = said
    announce(descriptor, ExitReport(0))
    os.close(open_ending(path))
    assert read_ending(path) is None


@pytest.mark.parametrize("family", FAMILIES.values())
def test_a_problem_arrives_as_it_was_raised(said, family):
    path, descriptor = said
    announce(descriptor, ending_of(family("no-space", "no space left", "free some")))
    problem = read_ending(path).problem()
    assert type(problem) is family
    assert (problem.code, problem.message, problem.hint) == (
        "no-space",
        "no space left",
        "free some",
    )


def test_a_very_long_message_is_shortened(said):
    path, descriptor = said
    announce(descriptor, ExitReport(1, "odd", "ü" * 10_000, "h" * 10_000))
    assert read_ending(path).message == "ü" * 200


@pytest.mark.parametrize(
    "content", [b"", b"\0\0", b"[]", b'{"exit_code": 3', b'{"exit_code": "x"}']
)
def test_what_is_torn_says_nothing(tmp_path, content):
    path = tmp_path / "daemon.end"
    path.write_bytes(content)
    assert read_ending(str(path)) is None


def test_a_process_says_that_it_has_started_and_later_why_it_ended(said):
    path, descriptor = said
    assert not has_started(path)
    announce_started(descriptor)
    assert has_started(path)
    assert read_ending(path) is None
    announce(descriptor, ExitReport(0))
    assert has_started(path)
    assert read_ending(path) == ExitReport(0)
    os.close(open_ending(path))
    assert not has_started(path)


def test_a_full_disk_keeps_nobody_from_ending():
    descriptor = os.open("/dev/full", os.O_RDWR)
    announce(descriptor, ExitReport(0))
    os.close(descriptor)
