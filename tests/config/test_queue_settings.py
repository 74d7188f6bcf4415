"""Queues as an operator sets them while the daemon runs: texts, checked as those of the file."""

from __future__ import annotations

import pytest

from iriai.config.queue_settings import checked_settings, with_queues
from iriai.config.reader import parse_configuration
from iriai.model.problem import NotFound, UsageProblem
from iriai.model.records import QueueSet

FILE = parse_configuration('[queues.1]\ngroup = "staff"\ntime_limit_s = 60\n', "iriai.toml")


def row(number: int, **settings: str) -> QueueSet:
    return QueueSet(number, tuple(settings.items()), "ann", 1.0)


def test_what_is_set_is_over_the_file_key_by_key():
    both = with_queues(FILE, [row(1, group="none", time_limit_max_s="4h"), row(5, state="enabled")])
    queue = both.queue(1)
    assert (queue.group, queue.time_limit_s, queue.time_limit_max_s) == (None, 60.0, 14_400.0)
    assert (both.queue_count, both.queue(5).state, both.queue(4).state) == (6, "enabled", "active")
    assert both.given["queues.1.group"] == "set by ann"
    assert both.given["queues.1.time_limit_s"] == "iriai.toml"


def test_parts_are_numbers_also_as_texts():
    queue = with_queues(FILE, [row(1, memory_percent="12.5", disk_percent="50%")]).queue(1)
    assert (queue.memory_percent, queue.disk_percent) == (12.5, 50.0)


def test_what_was_set_to_nothing_is_as_in_the_file():
    assert with_queues(FILE, [row(5), row(1)]) == FILE


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            [("colour", "red")],
            "use one of: state, group, time_limit_s, time_limit_max_s, cpu",
        ),
        ([("state", "open")], "'active' or 'enabled' or 'disabled'"),
        ([("time_limit_max_s", "-4h")], "seconds as a number or a duration"),
        ([("time_limit_s", "0")], "above 0"),
        ([("group", "a/b")], "a name of 1 to"),
        ([("memory_percent", "101")], "a number from 0 to 100, or 'none'"),
        ([("disk_percent", "half")], "a number from 0 to 100"),
        ([("group", "x" * 10_000)], "a name of 1 to"),
        ([("state", "active"), ("", "")], "use one of"),
    ],
)
def test_what_is_wrong_is_refused_with_what_is_right(settings, words):
    with pytest.raises(UsageProblem) as refused:
        checked_settings(0, settings)
    assert words in refused.value.hint
    assert len(refused.value.message) < 200


@pytest.mark.parametrize("number", [-1, 64, 10**15])
def test_a_queue_that_there_cannot_be_is_refused(number):
    with pytest.raises(NotFound, match="there can be no queue"):
        checked_settings(number, [])
