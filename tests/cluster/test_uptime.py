"""The time that a machine was online is counted, told when it changed enough, and stored."""

import pytest

from iriai.cluster.uptime import SLEPT_S, STORE_S, TOLD_ANEW, Uptime
from iriai.model.availability import Steadiness

MINUTE_S, HOUR_S = 60.0, 3600.0


def looks(uptime: Uptime, from_s: float, for_s: float) -> int:
    """Look once a minute; return how many times others were to be told."""
    moments = (from_s + MINUTE_S * number for number in range(1, int(for_s / MINUTE_S) + 1))
    return sum(uptime.look(moment) for moment in moments)


def test_others_are_told_when_it_has_changed_enough_and_not_before():
    uptime = Uptime(Steadiness(), 0.0)
    first = uptime.told
    assert looks(uptime, 0.0, 10 * MINUTE_S) == 0
    assert uptime.told == first
    times = looks(uptime, 10 * MINUTE_S, 5 * HOUR_S)
    assert times == int((uptime.known.value - first) / TOLD_ANEW)
    assert uptime.told > first


def test_the_time_that_a_machine_slept_or_was_down_counts_as_away():
    awake, slept = (Uptime(Steadiness(), 0.0) for _ in range(2))
    awake.look(SLEPT_S - 1.0)
    slept.look(SLEPT_S)
    assert awake.known.there_s > 0.0 == awake.known.away_s
    assert slept.known.away_s > 0.0 == slept.known.there_s
    again = Uptime(awake.known, SLEPT_S)
    assert again.known.away_s == pytest.approx(1.0, rel=1e-3)


def test_it_is_stored_once_in_a_while():
    uptime = Uptime(Steadiness(), 0.0)
    uptime.look(STORE_S - 1.0)
    assert not uptime.is_due()
    uptime.look(STORE_S)
    assert [uptime.is_due(), uptime.is_due()] == [True, False]
