"""Times as people write them: what they mean in a zone, and what is refused over a change of it."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iriai.client.wall_time import iso_text, local_offset_s, parse_wall_time, zone_offsets
from iriai.model.problem import UsageProblem

BERLIN, NEW_YORK = "Europe/Berlin", "America/New_York"
ZONES = (BERLIN, NEW_YORK, "Asia/Kolkata", "Australia/Lord_Howe", "UTC")
TUESDAY = "2026-12-01T10:30+01:00"
"""Of Berlin; nine is over there, noon is not."""


def offsets(zone: str):
    found = zone_offsets(zone)
    assert found is not None
    return found


def wall(text: str) -> float:
    """The time of a text in ISO 8601 with a zone."""
    return datetime.fromisoformat(text).timestamp()


def read(text: str, zone: str = BERLIN, now: str = TUESDAY, after: str | None = None) -> str:
    """What a text means in a zone, with the zone."""
    after_s = None if after is None else wall(after)
    found = parse_wall_time(text, wall(now), offsets(zone), after_wall_s=after_s)
    return iso_text(found, offsets(zone))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("now", "2026-12-01T10:30+01:00"),
        ("NOW", "2026-12-01T10:30+01:00"),
        ("+2h", "2026-12-01T12:30+01:00"),
        ("+90", "2026-12-01T10:31:30+01:00"),
        ("+1h30m", "2026-12-01T12:00+01:00"),
        ("12:00", "2026-12-01T12:00+01:00"),
        ("9:00", "2026-12-02T09:00+01:00"),
        ("10:30", "2026-12-02T10:30+01:00"),
        ("09:00:30", "2026-12-02T09:00:30+01:00"),
        ("today 9:00", "2026-12-01T09:00+01:00"),
        ("Tomorrow 9:00", "2026-12-02T09:00+01:00"),
        ("tomorrow", "2026-12-02T00:00+01:00"),
        ("tuesday 12:00", "2026-12-01T12:00+01:00"),
        ("tuesday 9:00", "2026-12-08T09:00+01:00"),
        ("monday 9:00", "2026-12-07T09:00+01:00"),
        ("wed 9:00", "2026-12-02T09:00+01:00"),
        ("sunday", "2026-12-06T00:00+01:00"),
        ("2026-12-05", "2026-12-05T00:00+01:00"),
        ("2026-12-05T09:00", "2026-12-05T09:00+01:00"),
        ("2026-12-05 9:00", "2026-12-05T09:00+01:00"),
        ("2026-12-05 09:00:01", "2026-12-05T09:00:01+01:00"),
        ("20261205T0900", "2026-12-05T09:00+01:00"),
        ("2026-W50-1T09:00", "2026-12-07T09:00+01:00"),
        ("2026-12-05T09:00Z", "2026-12-05T10:00+01:00"),
        ("2026-12-05T09:00-05:00", "2026-12-05T15:00+01:00"),
        ("2026-12-05 09:00-0500", "2026-12-05T15:00+01:00"),
        ("2026-12-05T09:00 America/New_York", "2026-12-05T15:00+01:00"),
        ("today 9:00 America/New_York", "2026-12-01T15:00+01:00"),
        ("9:00 Asia/Kolkata", "2026-12-02T04:30+01:00"),
        ("9:00 UTC", "2026-12-02T10:00+01:00"),
        ("2026-07-01T09:00", "2026-07-01T09:00+02:00"),
    ],
)
def test_what_a_text_means(text, expected):
    assert read(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("17:00", "2026-12-07T17:00+01:00"),
        ("8:00", "2026-12-08T08:00+01:00"),
        ("9:00", "2026-12-08T09:00+01:00"),
        ("+2h", "2026-12-07T11:00+01:00"),
        ("friday 17:00", "2026-12-11T17:00+01:00"),
        ("tomorrow 9:00", "2026-12-02T09:00+01:00"),
        ("now", "2026-12-01T10:30+01:00"),
    ],
)
def test_an_end_is_counted_from_its_start(text, expected):
    assert read(text, after="2026-12-07T09:00+01:00") == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "soon",
        "9",
        "24:00",
        "9:60",
        "9:5",
        "+",
        "+-2h",
        "-2h",
        "++2h",
        "today 25:00",
        "today today",
        "9:00 tomorrow",
        "monday tuesday 9:00",
        "2026-13-01",
        "2026-02-30",
        "2026-12-01T25:00",
        "2026-12-01T09:00+25:00",
        "2026-12-01T09:00+19:00",
        "2026-12-01T09:00 Mars/Olympus",
        "9:00 Europe/Atlantis",
        "9:00 ../etc",
        "9:00 Europe/../../etc/passwd",
        "1969-01-01",
        "3000-01-01",
        "9999-12-31T23:59:59+00:00",
        "0001-01-01",
        "\u0661\u0662:\u0660\u0660",
        "9:00\x00",
        "\x1b[31m9:00",
        "1" * 10_000,
        "+" + "9" * 30 + "h",
    ],
)
def test_what_is_no_time_is_refused(text):
    with pytest.raises(UsageProblem) as refused:
        read(text)
    assert refused.value.code in ("bad-time", "bad-duration")
    assert refused.value.hint
    assert "\x1b" not in str(refused.value)
    assert len(str(refused.value)) < 500


# --- changes of clocks ---------------------------------------------------------------------------

GAPS = [
    (BERLIN, "2026-03-29 02:30", "2026-03-29T01:30+01:00", "2026-03-29T03:30+02:00"),
    (BERLIN, "2026-03-29T02:00", "2026-03-29T01:00+01:00", "2026-03-29T03:00+02:00"),
    (NEW_YORK, "2026-03-08 2:59", "2026-03-08T01:59-05:00", "2026-03-08T03:59-04:00"),
]
TWICE = [
    (BERLIN, "2026-10-25 02:30", "2026-10-25T02:30+02:00", "2026-10-25T02:30+01:00"),
    (BERLIN, "2026-10-25T02:00", "2026-10-25T02:00+02:00", "2026-10-25T02:00+01:00"),
    (NEW_YORK, "2026-11-01 1:00", "2026-11-01T01:00-04:00", "2026-11-01T01:00-05:00"),
    ("Australia/Lord_Howe", "2026-04-05 01:45", "2026-04-05T01:45+11:00", "2026-04-05T01:45+10:30"),
]


@pytest.mark.parametrize(("zone", "text", "first", "last"), GAPS)
def test_a_time_that_is_left_out_is_refused_with_both_readings(zone, text, first, last):
    with pytest.raises(UsageProblem, match="left out: clocks are put forward") as refused:
        read(text, zone)
    assert refused.value.hint == f"write {first} or {last}"
    assert wall(last) - wall(first) == 3600.0
    for each in (first, last):
        assert read(each, zone) == each


@pytest.mark.parametrize(("zone", "text", "first", "last"), TWICE)
def test_a_time_that_comes_twice_is_refused_with_both_readings(zone, text, first, last):
    with pytest.raises(UsageProblem, match="comes twice: clocks are put back") as refused:
        read(text, zone)
    assert refused.value.hint == f"write {first} or {last}"
    for each in (first, last):
        assert read(each, zone) == each


@pytest.mark.parametrize(
    ("zone", "text", "expected"),
    [
        (BERLIN, "2026-03-29 01:59", "2026-03-29T01:59+01:00"),
        (BERLIN, "2026-03-29 03:00", "2026-03-29T03:00+02:00"),
        (BERLIN, "2026-10-25 01:59", "2026-10-25T01:59+02:00"),
        (BERLIN, "2026-10-25 03:00", "2026-10-25T03:00+01:00"),
        (NEW_YORK, "2026-03-08 01:59", "2026-03-08T01:59-05:00"),
        (NEW_YORK, "2026-03-08 03:00", "2026-03-08T03:00-04:00"),
        (NEW_YORK, "2026-11-01 00:59", "2026-11-01T00:59-04:00"),
        (NEW_YORK, "2026-11-01 02:00", "2026-11-01T02:00-05:00"),
    ],
)
def test_beside_a_change_of_clocks_times_are_what_they_seem(zone, text, expected):
    assert read(text, zone) == expected


def test_the_same_time_tomorrow_is_an_hour_less_or_more_away_over_a_change():
    before = "2026-03-28T10:00+01:00"
    assert wall(read("tomorrow 10:00", now=before)) - wall(before) == 23 * 3600.0
    assert wall(read("+24h", now=before)) - wall(before) == 24 * 3600.0
    assert wall(read("10:00", now="2026-10-24T10:00+02:00")) - wall("2026-10-24T10:00+02:00") == (
        25 * 3600.0
    )


def test_the_next_time_that_falls_into_a_change_is_refused_until_the_change_is_over():
    with pytest.raises(UsageProblem, match="left out"):
        read("2:30", now="2026-03-28T10:00+01:00")
    assert read("2:30", now="2026-03-29T03:31+02:00") == "2026-03-30T02:30+02:00"
    with pytest.raises(UsageProblem, match="comes twice"):
        read("2:30", now="2026-10-25T02:40+02:00")
    assert read("2:30", now="2026-10-25T02:40+01:00") == "2026-10-26T02:30+01:00"
    with pytest.raises(UsageProblem, match="left out"):
        read("sunday 2:30", now="2026-03-23T10:00+01:00")


# --- laws ----------------------------------------------------------------------------------------

TIMES = st.floats(1e7, 4e9)
CLOCKS = st.tuples(st.integers(0, 23), st.integers(0, 59))


@given(TIMES, st.sampled_from(ZONES))
def test_a_time_that_is_shown_is_read_as_itself(wall_s, zone):
    whole_s = -(-wall_s // 1)
    assert parse_wall_time(iso_text(wall_s, offsets(zone)), 0.0, offsets(BERLIN)) == whole_s


@given(TIMES, CLOCKS, st.sampled_from(ZONES))
def test_the_next_time_of_day_is_ahead_by_a_day_at_most_or_refused(now_s, clock, zone):
    hours, minutes = clock
    try:
        found = parse_wall_time(f"{hours}:{minutes:02}", now_s, offsets(zone))
    except UsageProblem as problem:
        if "left out" in problem.message or "comes twice" in problem.message:
            return
        raise
    assert now_s < found <= now_s + 25 * 3600.0
    shown = datetime.fromtimestamp(found, ZoneInfo(zone))
    assert (shown.hour, shown.minute, shown.second) == (hours, minutes, 0)


@given(st.integers(3000, 2**31 // 60), st.sampled_from(ZONES))
def test_a_local_time_is_read_only_if_it_is_there_once(minutes, zone):
    local = datetime.fromtimestamp(minutes * 60, UTC).replace(tzinfo=None)
    aware = local.replace(tzinfo=ZoneInfo(zone))
    is_there = aware.astimezone(UTC).astimezone(ZoneInfo(zone)).replace(tzinfo=None) == local
    is_twice = aware.utcoffset() != aware.replace(fold=1).utcoffset()
    try:
        found = parse_wall_time(local.isoformat(), 0.0, offsets(zone))
    except UsageProblem:
        assert is_twice
        return
    assert is_there
    assert not is_twice
    assert found == aware.timestamp()


@given(st.text(max_size=80))
def test_any_text_is_read_or_refused(text):
    try:
        found = parse_wall_time(text, 1e9, offsets(BERLIN))
    except UsageProblem:
        return
    assert found >= 0


def test_without_a_zone_it_is_that_of_the_process(monkeypatch):
    noon = "2026-07-01T12:00"
    before = os.environ.get("TZ")
    try:
        for zone in (BERLIN, NEW_YORK):
            monkeypatch.setenv("TZ", zone)
            time.tzset()
            expected = parse_wall_time(noon, 0.0, offsets(zone))
            assert parse_wall_time(noon, 0.0) == expected
            assert local_offset_s(expected) == offsets(zone)(expected)
    finally:
        monkeypatch.setenv("TZ", before) if before is not None else monkeypatch.delenv("TZ")
        time.tzset()


def test_there_is_no_zone_of_another_name():
    assert zone_offsets("Europe/Atlantis") is None
    assert zone_offsets("../../etc/passwd") is None
    assert zone_offsets("") is None


@pytest.mark.parametrize(
    ("text", "now", "change"),
    [
        ("tomorrow 2:30", "2026-03-28T10:00+01:00", "left out"),
        ("today 2:30", "2026-03-29T01:00+01:00", "left out"),
        ("sunday 2:30", "2026-03-25T10:00+01:00", "left out"),
        ("tomorrow 2:30", "2026-10-24T10:00+02:00", "comes twice"),
        ("today 2:30", "2026-10-25T01:00+02:00", "comes twice"),
        ("sunday 2:30", "2026-10-21T10:00+02:00", "comes twice"),
    ],
)
def test_a_day_by_its_name_is_refused_when_clocks_change_at_that_time(text, now, change):
    with pytest.raises(UsageProblem, match=change):
        read(text, now=now)


@pytest.mark.parametrize(
    ("text", "now", "expected"),
    [
        ("tomorrow 9:00", "2026-03-28T10:00+01:00", "2026-03-29T09:00+02:00"),
        ("monday 9:00", "2026-03-27T10:00+01:00", "2026-03-30T09:00+02:00"),
        ("tomorrow 9:00", "2026-10-24T10:00+02:00", "2026-10-25T09:00+01:00"),
        ("monday 9:00", "2026-10-23T10:00+02:00", "2026-10-26T09:00+01:00"),
    ],
)
def test_nine_is_nine_whatever_clocks_do_until_then(text, now, expected):
    assert read(text, now=now) == expected
