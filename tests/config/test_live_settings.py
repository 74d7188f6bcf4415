"""What an operator sets while the daemon runs: texts, checked as those of the file."""

from __future__ import annotations

import pytest

from iriai.config.live_settings import (
    changed_words,
    check_stays,
    checked,
    merged,
    only_live_differs,
    setting_words,
    with_settings,
)
from iriai.config.reader import parse_configuration
from iriai.config.sections import LIVE_SECTIONS
from iriai.model.problem import NotFound, Refused, UsageProblem
from iriai.model.records import KeySet, SectionSet

FILE = parse_configuration(
    '[queues.1]\ngroup = "staff"\ntime_limit_s = 60\n[gang]\nrows_max = 2\n', "iriai.toml"
)


def row(section: str, name: str, **settings: str) -> SectionSet:
    return merged(None, checked(section, name, settings.items()), "ann", 1.0)


def queue(number: int, **settings: str) -> SectionSet:
    return row("queues", str(number), **settings)


def test_what_is_set_is_over_the_file_key_by_key():
    both = with_settings(
        FILE, [queue(1, group="none", time_limit_max_s="4h"), queue(5, state="enabled")]
    )
    found = both.queue(1)
    assert (found.group, found.time_limit_s, found.time_limit_max_s) == (None, 60.0, 14_400.0)
    assert (both.queue_count, both.queue(5).state, both.queue(4).state) == (6, "enabled", "active")
    assert both.given["queues.1.group"] == "set by ann"
    assert both.given["queues.1.time_limit_s"] == "iriai.toml"


def test_pools_and_gangs_are_set_likewise():
    both = with_settings(
        FILE, [row("pools", "läb", memory="64G", jobs_max="8"), row("gang", "", quantum_s="0.5")]
    )
    assert (both.pool("läb").memory_bytes, both.pool("läb").jobs_max) == (64 << 30, 8)
    assert (both.gang.quantum_s, both.gang.rows_max) == (0.5, 2)
    assert both.given["gang.quantum_s"] == both.given["pools.läb.memory"] == "set by ann"


def test_parts_are_numbers_also_as_texts():
    found = with_settings(FILE, [queue(1, memory_percent="12.5", disk_percent="50%")]).queue(1)
    assert (found.memory_percent, found.disk_percent) == (12.5, 50.0)


def test_of_each_key_the_one_who_set_it_last_is_named():
    first = merged(None, checked("gang", "", [("quantum_s", "2"), ("rows_max", "3")]), "ann", 1.0)
    second = merged(first, checked("gang", "", [("quantum_s", "5")]), "bob", 2.0)
    assert second.settings == (KeySet("quantum_s", "5", "bob"), KeySet("rows_max", "3", "ann"))
    assert (second.by, second.wall_s) == ("bob", 2.0)
    assert merged(second, checked("gang", "", []), "eve", 3.0).settings == ()


def test_what_was_set_to_nothing_is_as_in_the_file():
    assert with_settings(FILE, [queue(5), queue(1), row("gang", "")]) == FILE


@pytest.mark.parametrize(
    ("section", "name", "settings", "words"),
    [
        ("queues", "0", [("colour", "red")], "use one of: state, group, time_limit_s"),
        ("queues", "0", [("state", "open")], "'active', 'enabled' or 'disabled'"),
        ("queues", "0", [("time_limit_max_s", "-4h")], "seconds as a number or a duration"),
        ("queues", "0", [("time_limit_s", "0")], "above 0"),
        ("queues", "0", [("group", "a/b")], "a name of 1 to"),
        ("queues", "0", [("memory_percent", "101")], "a number from 0 to 100, or 'none'"),
        ("queues", "0", [("disk_percent", "half")], "a number from 0 to 100"),
        ("queues", "0", [("group", "x" * 10_000)], "a name of 1 to"),
        ("queues", "0", [("state", "active"), ("", "")], "use one of"),
        ("pools", "a/b", [("jobs_max", "1")], "a name of 1 to"),
        ("pools", "x", [("jobs_max", "1.5")], "a whole number"),
        ("gang", "", [("quantum_s", "0.05")], "from 0.1 to 3600"),
        ("gang", "", [("quantum_s", "nan")], "from 0.1 to 3600"),
        ("gang", "", [("rows_max", "17")], "from 1 to 16"),
        ("gang", "", [("rows_max", "9" * 5000)], "from 1 to 16"),
        ("gang", "1", [("rows_max", "2")], "leave '1' out"),
        ("gang", "x" * 1000, [], f"leave '{'x' * 60}' out"),
        ("order", "", [("burst", "2")], "queues, pools, gang"),
    ],
)
def test_what_is_wrong_is_refused_with_what_is_right(section, name, settings, words):
    with pytest.raises(UsageProblem) as refused:
        checked(section, name, settings)
    assert words in refused.value.hint
    assert (refused.value.code, len(refused.value.message) < 200) == ("bad-setting", True)


@pytest.mark.parametrize("number", ["-1", "64", "01", "1e1", "9" * 5000, ""])
def test_a_queue_that_there_cannot_be_is_refused(number):
    with pytest.raises(NotFound, match="there can be no queue"):
        checked("queues", number, [])


def test_a_queue_with_jobs_in_it_stays():
    gone = checked("queues", "5", [])
    jobs = [f"ume-{each}" for each in range(7)]
    with pytest.raises(Refused, match="ume-0, ume-1, ume-2, ume-3, ume-4 and 2 more") as refused:
        check_stays(FILE, gone, lambda _: jobs)
    assert "let what runs end" in refused.value.hint
    check_stays(FILE, gone, lambda _: [])
    check_stays(FILE, checked("queues", "1", []), lambda _: jobs)
    check_stays(FILE, checked("gang", "", []), lambda _: jobs)


def test_only_live_sections_may_differ():
    other = with_settings(FILE, [queue(1, state="enabled"), row("gang", "", rows_max="3")])
    assert only_live_differs(FILE, other)
    assert changed_words(FILE, other) == "queues.1.state is enabled, gang.rows_max is 3"
    assert changed_words(other, FILE) == "queues.1.state is active, gang.rows_max is 2"
    assert not only_live_differs(FILE, parse_configuration("[order]\nburst = 3\n", "iriai.toml"))


def test_each_live_section_has_keys():
    assert all(setting_words(section) for section in LIVE_SECTIONS)


def test_values_that_are_words_are_offered_with_their_keys():
    assert setting_words("gang") == ["quantum_s=", "rows_max="]
    assert {"state=enabled", "mode=gang", "group=", "group=none"} < {*setting_words("queues")}
