"""What a pool could hold of a parallel task that is too large for it."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iriai.model.ranks import RankShape, shape_of
from iriai.model.resources import Resources
from iriai.policy.placement.pool_capacity import largest_held, least_cpus, rooms_of
from iriai.policy.placement.seats import ranks_in
from tests.support.naive_seats import FITS, SHAPES, most_by_trying


def machines(*cpus: int) -> dict[str, Resources]:
    return {f"m{number}": Resources(each) for number, each in enumerate(cpus)}


def held(cpus: tuple[int, ...], ranks: str, nodes=None, per_node=None) -> str:
    shape = largest_held(rooms_of(Resources(1), machines(*cpus)), shape_of(ranks, nodes, per_node))
    return "" if shape is None else shape.options


@pytest.mark.parametrize(
    ("cpus", "asked", "could"),
    [
        ((4, 4), ("16",), "-n 8"),
        ((4, 4), ("16", 4), "-n 8 --nodes 2"),
        ((4, 4, 1), ("9", 2), "-n 8 --nodes 2"),
        ((4, 4, 1), ("", 3, 4), "-n 8 --nodes 2 --per-node 4"),
        ((4, 4, 1), ("", 3, 5), "-n 8 --nodes 2 --per-node 4"),
        ((4, 4, 1), ("16", None, 4), "-n 8 --per-node 4"),
        ((2, 2), ("16-64",), "-n 4"),
        ((), ("2",), ""),
    ],
)
def test_what_it_could_hold_is_a_request_that_would_do(cpus, asked, could):
    assert held(cpus, *asked) == could


@given(FITS, SHAPES)
def test_what_it_could_hold_is_the_most_that_it_could(fits, shape):
    asked = shape_that_is(shape)
    if asked is None:
        return
    rooms = rooms_of(Resources(1), machines(*fits))
    could = largest_held(rooms, asked)
    assert could is not None
    assert could.least == could.most == ranks_in(rooms, could) <= asked.most
    assert shape_of(could.ranks_text, could.nodes, could.per_node) == could
    most = most_by_trying(fits, asked)
    if most:
        assert could == RankShape(most, most, asked.nodes, asked.per_node)
    elif (could.nodes, could.per_node) == (asked.nodes, asked.per_node):
        assert could.most < asked.least
        assert could.most == most_by_trying(fits, asked._replace(least=1))


def shape_that_is(shape: RankShape) -> RankShape | None:
    """The shape as a request has it; None where its numbers contradict."""
    if shape.nodes is not None and shape.per_node is not None:
        return shape_of("", shape.nodes, shape.per_node)
    return shape if shape.ranks_below(shape.most) else None


CAPACITIES = st.lists(st.tuples(st.integers(1, 6), st.integers(1, 4)), min_size=1, max_size=5)


@given(CAPACITIES, SHAPES)
def test_no_choice_of_machines_has_fewer_cpus(capacities, shape):
    asked = shape_that_is(shape)
    if asked is None:
        return
    pool = {f"m{n}": Resources(cpus, memory) for n, (cpus, memory) in enumerate(capacities)}
    need = Resources(1, 1)
    fewest = min(
        (
            sum(pool[name].cpus for name in chosen)
            for size in range(1, len(pool) + 1)
            for chosen in combinations(pool, size)
            if ranks_in(rooms_of(need, {name: pool[name] for name in chosen}), asked)
        ),
        default=None,
    )
    found = least_cpus(need, asked, pool)
    assert (found is None) == (fewest is None)
    if found is not None and fewest is not None:
        assert 1 <= found <= fewest
        if len(set(capacities)) == 1 or asked.per_node is not None:
            assert found == fewest
