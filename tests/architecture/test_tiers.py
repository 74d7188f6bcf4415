"""Every test is of one tier, and those of `make check` cannot start what they must not."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from tests.support.tiers import CHECKED, TESTS, tier


@pytest.mark.parametrize(
    ("path", "marks", "expected"),
    [
        ("policy/orders/test_laws.py", [], "check"),
        ("policy/orders/test_laws.py", ["parametrize"], "check"),
        ("policy/orders/test_laws.py", ["long"], "test"),
        ("client/test_tail.py", ["root"], "test"),
        ("policy/orders/test_laws.py", ["soak", "long"], "soak"),
        ("endtoend/test_jobs.py", [], "test"),
        ("endtoend/test_jobs.py", ["soak"], "soak"),
        ("a_new_folder/test_it.py", [], "test"),
    ],
)
def test_a_test_is_of_the_tier_of_its_folder_unless_a_marker_says_otherwise(path, marks, expected):
    assert tier(TESTS / path, frozenset(marks)) == expected


def test_each_folder_that_is_checked_is_there():
    assert [name for name in CHECKED if not (TESTS / name).is_dir()] == []


@pytest.mark.parametrize(
    "words",
    [["/bin/true"], [sys.executable, "-m", "iriai.daemon"], ["iriai", "up"]],
    ids=["another-program", "daemon", "command"],
)
def test_a_test_of_check_starts_no_process(words):
    with pytest.raises(pytest.fail.Exception, match="mark it `long`"):
        subprocess.run(words, check=False)


def test_a_test_of_check_uses_no_network():
    with socket.socket() as one, pytest.raises(pytest.fail.Exception, match=r"socket\.bind"):
        one.bind(("127.0.0.1", 0))
