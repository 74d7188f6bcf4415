"""Shapes of parallel tasks: what contradicts is refused, with a request that would do."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iriai.model.problem import UsageProblem
from iriai.model.ranks import ONE, RANKS_MAX, SEATS_MAX, RankShape, shape_of


def test_ranks_are_a_number_or_a_range():
    assert shape_of("8") == RankShape(8, 8)
    assert shape_of("4-16") == RankShape(4, 16)
    assert shape_of("") == ONE
    assert shape_of("", nodes=3) == RankShape(3, 3, nodes=3)
    assert shape_of("", nodes=3, per_node=4) == RankShape(12, 12, nodes=3, per_node=4)
    assert shape_of("4-16", nodes=3, per_node=4) == RankShape(12, 12, nodes=3, per_node=4)


@pytest.mark.parametrize(
    ("ranks", "nodes", "per_node", "message", "hint"),
    [
        ("8", 3, 4, "--nodes 3 with --per-node 4 are 12 ranks, and -n says 8", "say -n 12"),
        ("7", None, 2, "-n 7 is no multiple of --per-node 2", "say -n 8"),
        ("2", 4, None, "too few ranks for --nodes 4", "--nodes 2"),
        ("0", None, None, "-n 0 is not from 1", "use 1 to"),
        ("9-3", None, None, "the smaller number first", "use 1 to"),
        (str(RANKS_MAX + 1), None, None, "is not from 1 to 65536", "use 1 to 65536"),
        ("65536", None, 1, "65536 machines, of which a task may have 4096", "--per-node 16"),
        ("many", None, None, "'-n many' is no number", "-n 4-16"),
        ("4", 0, None, "--nodes 0 is not from 1", "use 1 to 4096"),
        ("4", SEATS_MAX + 1, None, "--nodes 4097 is not", "use 1 to 4096"),
        ("4", None, -1, "--per-node -1 is not", "use 1 to 65536"),
        ("", SEATS_MAX, RANKS_MAX, "ranks", "use 1 to"),
    ],
)
def test_what_contradicts_is_refused(ranks, nodes, per_node, message, hint):
    with pytest.raises(UsageProblem) as caught:
        shape_of(ranks, nodes, per_node)

    assert caught.value.code == "bad-shape"
    assert message in caught.value.message
    assert hint in caught.value.hint


@given(
    st.integers(1, 40),
    st.integers(0, 40),
    st.none() | st.integers(1, 9),
    st.none() | st.integers(1, 9),
)
def test_a_shape_that_is_made_has_ranks(least, more, nodes, per_node):
    try:
        shape = shape_of(f"{least}-{least + more}", nodes, per_node)
    except UsageProblem:
        return

    ranks = shape.ranks_below(RANKS_MAX)
    assert shape.is_possible
    assert least <= ranks <= least + more
    assert nodes is None or ranks >= nodes
    assert per_node is None or ranks % per_node == 0


@pytest.mark.parametrize(
    ("shape", "text"),
    [
        (ONE, "1 rank"),
        (RankShape(4, 16), "4-16 ranks"),
        (RankShape(8, 8, nodes=2, per_node=4), "8 ranks, on 2 machines, 4 on each"),
    ],
)
def test_a_shape_is_told_in_words(shape, text):
    assert str(shape) == text
    assert shape_of(shape.ranks_text, shape.nodes, shape.per_node) == shape
