"""Skew, idle and overlapping time of switches, from what ranks of two gangs noted."""

from typing import NamedTuple

import pytest

from benchmarks.harness.gang_switches import Switches, noted_turns, planned_turns


class Noted(NamedTuple):
    """A rank with pauses, of which each has its last moment before and its first one after."""

    pauses: list[tuple[float, float]]

    def gaps(self):
        return self.pauses


FIRST = [Noted([(1.0, 2.0), (3.0, 4.0)]), Noted([(1.0, 2.002), (3.0, 4.004)])]
SECOND = [Noted([(0.0, 1.01), (2.02, 3.0)]), Noted([(0.0, 1.0), (1.9, 3.0)])]
"""Two gangs of two ranks: the second rank of the first gang is late, and others overlap with it."""


def test_turns_are_planned_without_the_first_two():
    assert planned_turns(10.0, 0.5, 4) == [(0, 11.0), (1, 11.5)]


def test_turns_are_found_where_the_first_rank_of_a_gang_goes_on():
    assert noted_turns([FIRST, SECOND], 0.5, 1.0, 4) == [(1, 1.01), (0, 2.0), (1, 3.0), (0, 4.0)]


def test_turns_before_and_after_the_slices_that_count_are_left_out():
    assert noted_turns([FIRST, SECOND], 1.4, 1.0, 2) == [(0, 2.0), (1, 3.0)]


def test_a_short_pause_is_no_turn():
    stalls = [Noted([(1.0, 2.0), (2.3, 2.4)])]
    assert noted_turns([stalls, SECOND], 1.4, 1.0, 2) == [(0, 2.0), (1, 3.0)]


def test_skew_is_from_the_first_rank_to_the_last_and_parts_are_of_all_slices():
    found = Switches([FIRST, SECOND], [(0, 2.0), (1, 3.0)], 1.0)
    assert found.skews_ms == pytest.approx([2.0, 0.0])
    assert found.idle_part == pytest.approx(0.102 / 4)  # 1.9 to 2.002, of four ranks' switches
    assert found.overlap_part == pytest.approx(0.02 / 4)  # 2.0 to 2.02


def test_a_rank_that_does_not_follow_is_said():
    with pytest.raises(RuntimeError, match="has not followed"):
        Switches([FIRST, [Noted([(0.0, 1.0)]), SECOND[1]]], [(0, 2.0), (1, 3.0)], 1.0)


def test_gangs_that_take_no_turns_are_said():
    with pytest.raises(RuntimeError, match="take no turns"):
        Switches([FIRST, SECOND], [], 1.0)
