"""Gangs in the rows of time slices, and what a calendar holds for them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from iriai.model.turn import NEVER, RowSet
from iriai.policy.placement.slice_matrix import Gang, Holding, held_cpus, slots

NAMES = ("a", "b", "c", "d")
ROOMS = st.fixed_dictionaries({name: st.integers(0, 4) for name in NAMES})
CPUS = st.dictionaries(st.sampled_from(NAMES), st.integers(1, 4), min_size=1)
ROWS_MAX = st.integers(1, 5)


@st.composite
def several(draw: st.DrawFn) -> list[Gang[int]]:
    """Gangs of several levels; those that are new say row 0, others one where they were."""
    return [
        Gang(key, (draw(st.integers(0, 2)), key), draw(CPUS), draw(st.integers(0, 4)))
        for key in range(draw(st.integers(0, 7)))
    ]


def rows_of(turn: RowSet) -> list[int]:
    return [row for row in range(turn.rows) if turn.mask >> row & 1]


def loads_of(gangs: list[Gang[int]], turns: dict[int, RowSet], row: int) -> dict[str, int]:
    loads = dict.fromkeys(NAMES, 0)
    for gang in gangs:
        if turns[gang.key].mask >> row & 1:
            for name, cpus in gang.cpus.items():
                loads[name] += cpus
    return loads


def parts_of(gangs: list[Gang[int]]) -> list[list[Gang[int]]]:
    """Gangs that share machines, by others too, worked out in another way than the matrix does."""
    label = {name: name for name in NAMES}
    for _ in NAMES:
        for gang in gangs:
            least = min(label[name] for name in gang.cpus)
            label |= dict.fromkeys(gang.cpus, least)
    found: dict[str, list[Gang[int]]] = {}
    for gang in gangs:
        found.setdefault(label[next(iter(gang.cpus))], []).append(gang)
    return list(found.values())


@given(several(), ROOMS, ROWS_MAX)
def test_no_row_of_a_machine_has_more_than_its_room(gangs, rooms, rows_max):
    turns = {key: slot.turn for key, slot in slots(gangs, rooms, rows_max).items()}
    for part in parts_of(gangs):
        for row in range(rows_max):
            loads = loads_of(part, turns, row)
            assert all(loads[name] <= rooms[name] for name in NAMES)


@given(several(), ROOMS, ROWS_MAX)
def test_a_gang_has_one_row_of_its_own_which_is_among_those_in_which_it_runs(gangs, rooms, most):
    found = slots(gangs, rooms, most)
    assert sorted(found) == sorted(gang.key for gang in gangs)
    for row, turn in found.values():
        assert turn == NEVER or row in rows_of(turn)
        assert turn.mask < 1 << turn.rows


@given(several(), ROOMS, ROWS_MAX)
def test_all_that_share_machines_have_one_cycle_and_each_row_has_an_owner(gangs, rooms, rows_max):
    found = slots(gangs, rooms, rows_max)
    for part in parts_of(gangs):
        running = [found[gang.key] for gang in part if found[gang.key].turn != NEVER]
        rows = {slot.turn.rows for slot in running}
        assert len(rows) <= 1
        assert {slot.row for slot in running} == set(range(max(rows, default=0)))
        assert max(rows, default=0) <= min(rows_max, len(part))


@given(several(), ROOMS, ROWS_MAX)
def test_a_gang_that_stands_would_fit_in_no_row(gangs, rooms, rows_max):
    found = slots(gangs, rooms, rows_max)
    for part in parts_of(gangs):
        own = {gang.key: RowSet(rows_max, 1 << found[gang.key].row) for gang in part}
        own |= {key: NEVER for key in own if found[key].turn == NEVER}
        for gang in part:
            if found[gang.key].turn != NEVER:
                continue
            for row in range(gang.row, rows_max):
                loads = loads_of(part, own, row)
                assert any(loads[name] + gang.cpus[name] > rooms[name] for name in gang.cpus)


@given(several(), ROOMS, st.integers(7, 9))
def test_with_rows_for_all_only_what_is_too_large_stands(gangs, rooms, rows_max):
    gangs = [gang._replace(row=0) for gang in gangs]
    for gang in gangs:
        fits = all(cpus <= rooms[name] for name, cpus in gang.cpus.items())
        assert (slots(gangs, rooms, rows_max)[gang.key].turn != NEVER) is fits


@given(several(), ROOMS, ROWS_MAX)
def test_who_runs_in_a_row_would_not_leave_room_for_another_that_does_not(gangs, rooms, rows_max):
    found = slots(gangs, rooms, rows_max)
    turns = {key: slot.turn for key, slot in found.items()}
    for part in parts_of(gangs):
        rows = max(turns[gang.key].rows for gang in part)
        for gang in part:
            for row in range(rows):
                if turns[gang.key] != NEVER and not turns[gang.key].mask >> row & 1:
                    loads = loads_of(part, turns, row)
                    assert any(loads[name] + gang.cpus[name] > rooms[name] for name in gang.cpus)


@given(several(), ROOMS, ROWS_MAX)
def test_what_is_settled_stays_where_it_is(gangs, rooms, rows_max):
    found = slots(gangs, rooms, rows_max)
    moved = [gang._replace(row=found[gang.key].row) for gang in gangs]
    running = [gang for gang in moved if found[gang.key].turn != NEVER]
    again = slots(running, rooms, rows_max)
    for gang in running:
        assert again[gang.key].row <= gang.row  # to an earlier one, never a later


@given(several(), ROOMS, ROWS_MAX, st.randoms())
def test_the_order_of_the_gangs_is_of_no_account(gangs, rooms, rows_max, random):
    shuffled = list(gangs)
    random.shuffle(shuffled)
    assert slots(shuffled, rooms, rows_max) == slots(gangs, rooms, rows_max)


def test_two_gangs_take_turns_and_a_third_fills_what_one_leaves_idle():
    gangs = [
        Gang("whole", (0, 1), {"a": 4, "b": 4}, 0),
        Gang("half", (0, 2), {"a": 4}, 1),
        Gang("other", (0, 3), {"b": 2}, 1),
    ]
    found = slots(gangs, {"a": 4, "b": 4}, 4)
    assert found["whole"] == (0, RowSet(2, 0b01))
    assert found["half"] == found["other"] == (1, RowSet(2, 0b10))


def test_idle_slices_go_to_the_highest_first():
    gangs = [
        Gang("low", (1, 1), {"a": 2}, 0),
        Gang("late", (0, 3), {"a": 2}, 0),
        Gang("high", (0, 2), {"a": 2}, 1),
        Gang("huge", (0, 9), {"a": 4}, 2),
    ]
    found = slots(gangs, {"a": 4}, 4)
    rows = {key: rows_of(slot.turn) for key, slot in found.items()}
    assert rows == {"low": [0], "late": [0, 1], "high": [1], "huge": [2]}


def test_gangs_that_share_no_machine_have_cycles_of_their_own():
    apart = [Gang(name, (0, 0), {name: 4}, 0) for name in "ab"]
    rooms = {"a": 4, "b": 4}
    assert set(slots(apart, rooms, 4).values()) == {(0, RowSet(1, 1))}
    joined = [*apart, Gang("both", (0, 1), {"a": 1, "b": 1}, 1)]
    assert {slot.turn.rows for slot in slots(joined, rooms, 4).values()} == {2}


# --- what a calendar holds -----------------------------------------------------------------------

DRAWN = st.tuples(st.integers(1, 8), st.integers(1, 15), st.integers(0, 20).map(float))
HOLDINGS = st.lists(DRAWN, max_size=6).map(
    lambda drawn: [Holding(key, *each) for key, each in enumerate(drawn)]
)


def most_of(holdings: list[Holding[int]]) -> int:
    rows = [sum(each.cpus for each in holdings if each.mask >> row & 1) for row in range(4)]
    return max(rows)


@given(HOLDINGS)
def test_together_they_hold_the_most_of_any_row_now_and_after_each_end(holdings):
    held = held_cpus(holdings)
    left = sorted(holdings, key=lambda each: each.end_s)
    while left:
        assert sum(held[each.key] for each in left) == most_of(left)
        ending = left.pop(0)
        assert 0 <= held[ending.key] <= ending.cpus
