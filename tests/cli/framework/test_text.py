"""What people read is harmless, and in units they know."""

import time

import pytest

from iriai.cli.framework.table import (
    amounts_text,
    clock_text,
    command_text,
    count_text,
    percent_text,
    span_text,
)
from iriai.model.units import printable

DAY_S = 86_400.0


def test_control_characters_are_shown_and_not_obeyed():
    assert printable("a\x1b[31mb\n\x07") == "a\\x1b[31mb\\n\\x07"
    assert printable("入会 é") == "入会 é"
    assert command_text(["echo", "two words", "\x1b"]) == "echo 'two words' '\\x1b'"


def test_amounts_have_units():
    assert amounts_text({"cpus": 1, "memory_bytes": 2 << 30, "licence": 3}) == (
        "1 cpu, 2G memory, 3 licence"
    )
    assert amounts_text({}) == "nothing"
    assert count_text(1, "task") == "1 task"
    assert count_text(12_000, "task") == "12,000 tasks"


@pytest.mark.parametrize(("fraction", "text"), [(None, "-"), (1 / 3, "33.3 %"), (0.0, "0.0 %")])
def test_fractions_are_percents(fraction: float | None, text: str):
    assert percent_text(fraction) == text


def test_a_span_is_never_below_nothing():
    assert span_text(-3.0) == "0.0s", "clocks differ"
    assert span_text(None) == "-"


def test_a_moment_has_its_date_where_it_is_not_today(monkeypatch: pytest.MonkeyPatch):
    now_s = 1_800_000_000.0
    today = time.localtime(now_s)
    moments = [now_s, now_s - 3 * DAY_S, now_s - 700 * DAY_S]
    local = {moment: time.localtime(moment) for moment in moments}
    monkeypatch.setattr(time, "localtime", lambda moment=None: local.get(moment, today))
    this_day, this_year, before = map(clock_text, moments)
    assert len(this_day) == len("12:34:56")
    assert ":" in this_year
    assert before.count("-") == 2
    assert clock_text(None) == ""
