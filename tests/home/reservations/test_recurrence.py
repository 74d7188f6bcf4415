"""Rules of repetition: RFC 5545, in the local time of a zone; what is hostile costs nothing."""

# ruff: noqa: DTZ001 - local times are what this is about

from datetime import datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

import pytest
from dateutil.rrule import rrulestr
from hypothesis import given
from hypothesis import strategies as st

from iriai.home.reservations.recurrence import (
    GAP_MAX_DAYS,
    canonical_rule,
    occurrences,
)
from iriai.model.problem import UsageProblem

BERLIN = ZoneInfo("Europe/Berlin")
ZONES = ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Tokyo", "UTC")
RULES = (
    *("FREQ=DAILY", "FREQ=DAILY;INTERVAL=3", "FREQ=DAILY;BYDAY=SA,SU", "FREQ=WEEKLY"),
    *("FREQ=WEEKLY;BYDAY=MO,TH", "FREQ=WEEKLY;INTERVAL=2;BYDAY=TU,SU;WKST=SU", "FREQ=MONTHLY"),
    *("FREQ=MONTHLY;BYDAY=-1FR", "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1"),
    *("FREQ=MONTHLY;BYMONTHDAY=-1,15", "FREQ=YEARLY;BYMONTH=3,10;BYDAY=-1SU", "FREQ=YEARLY"),
)


def starts(rule: str, first: datetime, zone: str = "Europe/Berlin", count: int = 4) -> list[str]:
    """The local times of the first occurrences, each with its reason if it is none."""
    begun_s = first.replace(tzinfo=ZoneInfo(zone)).timestamp()
    found = islice(occurrences(canonical_rule(rule), zone, begun_s), count)
    return [
        each.problem
        or datetime.fromtimestamp(each.start_wall_s, ZoneInfo(zone)).isoformat(timespec="minutes")
        for each in found
    ]


def test_nine_in_the_morning_is_nine_in_the_morning_when_clocks_are_put_back():
    assert starts("weekly", datetime(2026, 10, 19, 9)) == [
        "2026-10-19T09:00+02:00",
        "2026-10-26T09:00+01:00",
        "2026-11-02T09:00+01:00",
        "2026-11-09T09:00+01:00",
    ]


def test_and_when_they_are_put_forward():
    assert starts("FREQ=DAILY;COUNT=3", datetime(2027, 3, 27, 9)) == [
        "2027-03-27T09:00+01:00",
        "2027-03-28T09:00+02:00",
        "2027-03-29T09:00+02:00",
    ]


def test_a_local_time_that_is_left_out_or_comes_twice_is_told():
    assert starts("daily", datetime(2027, 3, 27, 2, 30), count=3) == [
        "2027-03-27T02:30+01:00",
        "2027-03-28 02:30 is left out: clocks are put forward",
        "2027-03-29T02:30+02:00",
    ]
    assert starts("daily", datetime(2026, 10, 24, 2, 30), count=3) == [
        "2026-10-24T02:30+02:00",
        "2026-10-25 02:30 comes twice: clocks are put back",
        "2026-10-26T02:30+01:00",
    ]


def test_the_first_is_the_first_day_of_the_rule_from_the_start_on():
    assert starts("weekdays", datetime(2026, 11, 28, 9), count=2) == [
        "2026-11-30T09:00+01:00",
        "2026-12-01T09:00+01:00",
    ]


@pytest.mark.parametrize("until", ["20261201", "20261201T090000", "20261201T080000Z"])
def test_the_end_of_a_rule_is_a_day_or_a_time_there_or_in_utc(until: str):
    found = starts(f"FREQ=DAILY;UNTIL={until}", datetime(2026, 11, 30, 9), count=9)
    assert [each[:10] for each in found] == ["2026-11-30", "2026-12-01"]


@given(
    st.sampled_from(RULES),
    st.sampled_from(ZONES),
    st.datetimes(datetime(2020, 1, 1), datetime(2035, 1, 1)),
)
def test_each_occurrence_has_the_local_time_of_the_rule(rule: str, zone: str, first: datetime):
    """Whatever clocks do in between; what is told as none is none, or two."""
    there = ZoneInfo(zone)
    first = first.replace(microsecond=0)
    begun_s = first.replace(tzinfo=there).timestamp()
    first = datetime.fromtimestamp(begun_s, there).replace(tzinfo=None)
    found = list(islice(occurrences(rule, zone, begun_s), 40))
    wanted = list(islice(rrulestr(rule, dtstart=first), 40))
    assert len(found) == len(wanted)
    for occurrence, local in zip(found, wanted, strict=True):
        at = datetime.fromtimestamp(occurrence.start_wall_s, there)
        readings = {
            local.replace(tzinfo=there, fold=fold).astimezone(ZoneInfo("UTC")) for fold in (0, 1)
        }
        if occurrence.problem:
            assert len(readings) == 2
        else:
            assert at.replace(tzinfo=None) == local
            assert len(readings) == 1


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("", "no part that is known"),
        ("FREQ=SECONDLY", "is not one of DAILY"),
        ("FREQ=HOURLY;INTERVAL=24", "is not one of DAILY"),
        ("FREQ=DAILY;COUNT=1000000000", "COUNT=1000000000 is not 1 to 10,000"),
        ("FREQ=DAILY;COUNT=0", "is not 1 to"),
        ("FREQ=DAILY;INTERVAL=99999999999999999999", "is not 1 to"),
        ("FREQ=DAILY;BYHOUR=1,2,3", "no part that is known"),
        ("FREQ=YEARLY;BYEASTER=0", "no part that is known"),
        ("FREQ=DAILY;FREQ=WEEKLY", "FREQ twice"),
        ("COUNT=3", "no FREQ"),
        ("FREQ=DAILY;COUNT=3;UNTIL=20300101", "both COUNT and UNTIL"),
        ("FREQ=DAILY;UNTIL=20301399", "UNTIL is not a time"),
        ("FREQ=DAILY;UNTIL=20300101T996161", "UNTIL is not a time"),
        ("FREQ=DAILY;UNTIL=99991231", "UNTIL is not a time"),
        ("FREQ=WEEKLY;BYDAY=XX", "BYDAY has 'XX'"),
        ("FREQ=WEEKLY;BYDAY=2MO", "days are numbered"),
        ("FREQ=YEARLY;BYDAY=54MO", "at most 53"),
        ("FREQ=MONTHLY;BYMONTHDAY=0", "has a 0"),
        ("FREQ=MONTHLY;BYMONTHDAY=32", "is not -31 to 31"),
        ("FREQ=MONTHLY;BYSETPOS=1", "chooses among nothing"),
        ("FREQ=DAILY;" * 20, "too many parts"),
        ("X" * 100_000, "too long"),
        ("FREQ=DAILY;INTERVAL=²", "is not 1 to"),
    ],
)
def test_a_rule_beyond_what_is_allowed_is_refused(rule: str, message: str):
    with pytest.raises(UsageProblem, match=message) as refused:
        canonical_rule(rule)
    assert len(str(refused.value)) < 400


NEVER = (
    *("FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30", "FREQ=DAILY;INTERVAL=7;BYDAY=TU"),
    *("FREQ=MONTHLY;BYMONTH=2;BYMONTHDAY=31", "FREQ=MONTHLY;INTERVAL=12;BYMONTHDAY=31"),
    *("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30", "FREQ=WEEKLY;BYDAY=MO;BYSETPOS=2"),
    "FREQ=YEARLY;INTERVAL=366;BYMONTH=2;BYMONTHDAY=30",
)


@pytest.mark.parametrize("rule", NEVER)
def test_the_search_for_a_day_that_never_comes_is_short(rule: str, monkeypatch):
    """The periods that dateutil looks at are counted: it would go on to the year 9999."""
    from dateutil.rrule import _iterinfo

    days: list[object] = []
    for name in ("ydayset", "mdayset", "wdayset", "ddayset"):
        whole = getattr(_iterinfo, name)

        def counted(info, *at, whole=whole):
            days.append(at)
            return whole(info, *at)

        monkeypatch.setattr(_iterinfo, name, counted)
    monday = datetime(2027, 2, 1, 9, tzinfo=BERLIN)
    found = list(occurrences(canonical_rule(rule), "Europe/Berlin", monday.timestamp()))
    assert found == []
    assert 0 < len(days) <= GAP_MAX_DAYS + 2


def test_the_29th_of_february_is_found_across_a_century():
    found = starts("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29", datetime(2095, 1, 1, 9), count=2)
    assert [each[:10] for each in found] == ["2096-02-29", "2104-02-29"]


@given(st.text(max_size=300))
def test_any_text_is_a_rule_or_is_refused(text: str):
    try:
        rule = canonical_rule(text)
    except UsageProblem:
        return
    assert canonical_rule(rule) == rule


VALUES = (
    *("DAILY", "WEEKLY", "MONTHLY", "YEARLY", "1", "2", "12", "-1", "31", "366", "MO", "-1SU"),
    *("20300101", "MO,TU,WE", "5FR", "29,30,31", "53MO"),
)
PARTS = st.dictionaries(
    st.sampled_from(
        ["FREQ", "INTERVAL", "COUNT", "UNTIL", "BYDAY", "BYMONTHDAY", "BYMONTH", "BYSETPOS"]
    ),
    st.sampled_from(VALUES),
)


@given(PARTS, st.datetimes(datetime(1971, 1, 1), datetime(2990, 1, 1)))
def test_whatever_rule_is_allowed_its_occurrences_rise(parts: dict[str, str], first: datetime):
    try:
        rule = canonical_rule(";".join(f"{name}={value}" for name, value in parts.items()))
    except UsageProblem:
        return
    begun_s = first.replace(tzinfo=BERLIN).timestamp()
    found = [each.start_wall_s for each in islice(occurrences(rule, "Europe/Berlin", begun_s), 8)]
    assert found == sorted(set(found))
    assert all(each >= begun_s - timedelta(hours=1).total_seconds() for each in found)
