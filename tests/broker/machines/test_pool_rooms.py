"""What pools have room for, while machines come, go, fill up and move to another pool."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from iriai.broker.machines.machine_index import MachineIndex
from iriai.broker.machines.machine_view import MachineView
from iriai.model.ranks import RankShape
from iriai.model.resources import NOTHING, Resources
from iriai.policy.placement.pool_plan import rank_fit, sum_of

RANK = Resources(2)
names = st.sampled_from(["m1", "m2", "m3"])
acts = st.one_of(
    st.tuples(st.just("put"), names, st.sampled_from(["a", "b", ""]), st.integers(1, 9)),
    st.tuples(st.just("drop"), names),
    st.tuples(st.just("claim"), names, st.integers(1, 4)),
    st.tuples(st.just("ask")),
)


def put(index: MachineIndex, name: str, pool: str, cpus: int = 4) -> MachineView:
    view = MachineView(name, Resources(cpus), pool, mints=False)
    index.put(view)
    return view


def check(index: MachineIndex) -> None:
    """Compare with looking at every machine."""
    rooms, views = index.rooms, index.views.values()
    expected: dict[str, list[Resources]] = {}
    for view in views:
        expected.setdefault(view.pool, []).append(view.calendar.free if view.is_open else NOTHING)
    totals = {pool: sum_of(free) for pool, free in expected.items()}
    assert rooms.free() == {pool: total for pool, total in totals.items() if total != NOTHING}
    pools = rooms.pools(is_across=False)
    assert {pool.name for pool in pools} == expected.keys()
    for pool in pools:
        fits = [rank_fit(RANK, each) for each in expected[pool.name]]
        assert rooms.total(pool, RANK) == sum(fits)
        able = sum(rank_fit(RANK, each.calendar.capacity) for each in pool.machines.values())
        assert rooms.could_hold(pool, RANK, RankShape(3, 3)) == (able >= 3)


@given(st.lists(acts, max_size=40))
def test_rooms_are_as_if_each_machine_were_looked_at(story):
    index, keys = MachineIndex(), 0
    for act, *given_ in story:
        match act:
            case "put":
                put(index, *given_)
            case "drop" if given_[0] in index.views:
                index.drop(index.views[given_[0]])
            case "claim" if given_[0] in index.views:
                view, need = index.views[given_[0]], Resources(given_[1])
                if need.fits_in(view.calendar.free):
                    keys += 1
                    view.calendar.add(keys, need, 0.0, None)
                    index.changed(view)
            case "ask":
                check(index)
    check(index)


def test_a_machine_that_says_another_pool_each_time_takes_the_room_of_one():
    index = MachineIndex()
    put(index, "other", "kept")
    for number in range(100):
        put(index, "liar", f"pool{number}")
        check(index)
    assert index.rooms.free().keys() == {"kept", "pool99"}
