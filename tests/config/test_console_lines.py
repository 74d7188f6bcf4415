"""Lines of the console: read as a shell would, bounded, and those of an rc file settings alone."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iriai.config.console_lines import (
    LINES_MAX,
    at_line,
    change_in,
    lines_of,
    words_of,
)
from iriai.config.live_settings import checked
from iriai.model.bounds import CONSOLE_BYTES_MAX
from iriai.model.problem import NotFound, Problem, UsageProblem


def test_blank_lines_and_comments_keep_their_numbers():
    lines = lines_of(b"# by night\n\n  queue unset 1  # all of it\n\tgang unset\n", "a.rc")
    assert [(line.number, line.text) for line in lines] == [
        (3, "queue unset 1  # all of it"),
        (4, "gang unset"),
    ]
    assert words_of(lines[0].text) == ["queue", "unset", "1"]


def test_words_are_those_of_a_shell():
    assert words_of("pool set 'my pool' jobs_max=1 # why") == [
        "pool",
        "set",
        "my pool",
        "jobs_max=1",
    ]
    with pytest.raises(UsageProblem, match="a quotation does not end"):
        words_of("queue set 'x")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"#" * (CONSOLE_BYTES_MAX + 1), "more than 65536 bytes"),
        (b"\n" * (LINES_MAX + 1), "more than 1000 lines"),
        (b"queue set 1 group=\xff\n", "not UTF-8 text (byte 18)"),
    ],
)
def test_what_is_no_file_of_lines_is_refused(content, words):
    with pytest.raises(UsageProblem) as refused:
        lines_of(content, "a.rc")
    assert words in refused.value.message
    assert len(lines_of(b"x\n" * LINES_MAX, "a.rc")) == LINES_MAX


def test_a_line_is_a_setting():
    assert change_in("queue set 1 state=enabled group='a b'") == checked(
        "queues", "1", [("state", "enabled"), ("group", "a b")]
    )
    assert change_in("pool unset blades") == checked("pools", "blades", [])
    assert change_in("gang set quantum_s=2") == checked("gang", "", [("quantum_s", "2")])
    assert change_in("gang unset  # again") == checked("gang", "", [])


@pytest.mark.parametrize(
    "text",
    [
        "queues",
        "jobs",
        "quit",
        "submit -- rm -r /",
        "queue",
        "queue set 1",
        "queue set",
        "queue unset 1 state",
        "queue set 1 state",
        "queue set 1 =x",
        "gang unset x",
        "gang set",
        "pool set x jobs_max=-1",
        "queue set --help",
        "iriai queue set 1 state=active",
        "queue set 1 state=active; reboot",
    ],
)
def test_what_may_not_stand_in_an_rc_file_is_refused(text):
    with pytest.raises(UsageProblem) as refused:
        change_in(text)
    assert refused.value.hint


def test_a_problem_says_the_line():
    with pytest.raises(NotFound) as refused:
        change_in("queue set 99 state=active")
    problem = at_line(refused.value, "iriai.rc", 7)
    assert isinstance(problem, NotFound)
    assert str(problem).startswith("iriai.rc, line 7: there can be no queue 99; use one from 0")


@given(st.text(max_size=200) | st.text("queue poolsetng 1='\"#\\", max_size=60))
def test_any_line_is_a_setting_or_a_problem_of_one_line(text):
    said = "queue"
    with suppress(Problem):
        said = str(change_in(text))
    assert said.split()[0].strip(":") in ("queue", "pool", "gang")
