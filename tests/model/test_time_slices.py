"""Whose turn it is, for how long it was, and when it has been for so long."""

from __future__ import annotations

from itertools import pairwise
from math import inf

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iriai.launcher.contract.messages import SetCycle
from iriai.model.time_slices import CYCLE_ROWS_MAX, NO_CYCLES, Cycles, SliceCycle

MASKS = st.integers(0, 15)
CYCLES = st.builds(
    SliceCycle, st.sampled_from([0.125, 1.0, 3.0]), st.integers(0, 4), st.integers(0, 9)
)
MOMENTS = st.integers(0, 400).map(lambda eighths: eighths / 8)
STEP_S = 1 / 16
"""All that is drawn here is a multiple of it, and doubles hold it exactly."""


@st.composite
def corrected_cycles(draw: st.DrawFn) -> Cycles:
    """A cycle with, or without, another phase to follow."""
    first = draw(CYCLES)
    now = Cycles(first)
    if draw(st.booleans()):
        now = now.followed_by(first._replace(row_0_s=draw(st.integers(0, 9))), draw(MOMENTS))
    return now


def counted_s(cycles: Cycles, mask: int, since_s: float, until_s: float) -> float:
    """For how long it was the turn of `mask`, looked at step by step."""
    steps = round((until_s - since_s) / STEP_S)
    return sum(cycles.is_turn(mask, since_s + step * STEP_S) for step in range(steps)) * STEP_S


@given(corrected_cycles(), MASKS, MOMENTS, MOMENTS)
def test_what_is_not_its_turn_is_away(cycles: Cycles, mask: int, since_s: float, lasted_s: float):
    until_s = since_s + lasted_s
    turn_s = counted_s(cycles, mask, since_s, until_s)
    assert cycles.away_s(mask, since_s, until_s) == pytest.approx(lasted_s - turn_s)


@given(corrected_cycles(), MASKS, MOMENTS, st.integers(1, 200).map(lambda steps: steps / 8))
def test_after_so_long_a_turn_it_has_had_just_that(
    cycles: Cycles, mask: int, since_s: float, turn_s: float
):
    due_s = cycles.after_turn_s(mask, since_s, turn_s)
    if due_s == inf:
        assert not mask & ((1 << cycles.now.rows) - 1)
        return
    assert due_s - since_s - cycles.away_s(mask, since_s, due_s) == pytest.approx(turn_s)
    before_s = cycles.away_s(mask, since_s, due_s - STEP_S)
    assert due_s - STEP_S - since_s - before_s < turn_s


@given(CYCLES, MOMENTS)
def test_slices_begin_where_the_last_one_ended(cycle: SliceCycle, moment_s: float):
    number = cycle.slice_at(moment_s)
    assert cycle.begin_s(number) <= moment_s < cycle.begin_s(number + 1)
    assert cycle.slice_at(cycle.begin_s(number + 1)) == number + 1


@given(st.integers(2, 4), st.floats(-0.45, 0.45), st.floats(0.0, 50.0))
def test_a_small_correction_brings_no_row_again_and_skips_none(
    rows: int, by_s: float, moment_s: float
):
    first = SliceCycle(1.0, rows, 0.0)
    cycles = Cycles(first).followed_by(first._replace(row_0_s=by_s), moment_s)
    seen = [cycles.at(moment_s).row_at(moment_s)]
    at_s = moment_s
    for _ in range(12):
        at_s = cycles.next_s(at_s)
        row = cycles.at(at_s).row_at(at_s)
        seen += [row] if row != seen[-1] else []
    assert {(after - before) % rows for before, after in pairwise(seen)} == {1}


def test_other_rows_count_at_once():
    cycles = Cycles(SliceCycle(1.0, 2, 0.0)).followed_by(SliceCycle(1.0, 3, 0.0), 4.5)
    assert cycles == Cycles(SliceCycle(1.0, 3, 0.0))


def test_without_rows_it_is_always_everybodys_turn():
    assert NO_CYCLES.is_turn(0, 5.0)
    assert NO_CYCLES.away_s(0, 0.0, 5.0) == 0.0
    assert NO_CYCLES.next_s(5.0) == inf


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("quantum_s", 0.0),
        ("quantum_s", -1.0),
        ("quantum_s", float("nan")),
        ("quantum_s", inf),
        ("quantum_s", 1e-9),
        ("rows", -1),
        ("rows", CYCLE_ROWS_MAX + 1),
        ("since_row_0_s", -1.0),
        ("since_row_0_s", float("nan")),
        ("as_of_s", inf),
        ("number", -1),
        ("turns", ((("ume", 1, 0, 1, 0, 0), 1 << CYCLE_ROWS_MAX),)),
        ("turns", ((("ume", 1, 0, 1, 0, 0), -1),)),
    ],
)
def test_a_cycle_out_of_bounds_is_no_message(field: str, value: object):
    honest = SetCycle(1, 1.0, 2, 0.0, 0.0, ())
    frame = msgspec.msgpack.encode(msgspec.structs.replace(honest, **{field: value}))
    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(frame, type=SetCycle)
