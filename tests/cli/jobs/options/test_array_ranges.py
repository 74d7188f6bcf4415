"""Array indices as text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iriai.cli.jobs.options.script import array_text, parse_array, parse_throttled
from iriai.model.problem import UsageProblem


@pytest.mark.parametrize(
    ("text", "ranges"),
    [
        ("5", ((5, 5, 1),)),
        ("1-100", ((1, 100, 1),)),
        ("0-98:2", ((0, 98, 2),)),
        ("20-30:2,1-10", ((1, 10, 1), (20, 30, 2))),
        (" 1 - 3 , 7", ((1, 3, 1), (7, 7, 1))),
    ],
)
def test_ranges_are_read_in_ascending_order(text: str, ranges):
    assert parse_array(text) == ranges


@pytest.mark.parametrize("text", ["", "x", "1-", "-3", "3-1", "1-9:0", "1,,2", "1..3", "1-2-3"])
def test_what_is_no_range_is_refused_with_an_example(text: str):
    with pytest.raises(UsageProblem, match="--array 1-100"):
        parse_array(text)


def test_what_follows_a_percent_is_how_many_run_at_once():
    assert parse_throttled("1-1000%50") == (((1, 1000, 1),), 50)
    assert parse_throttled("7") == (((7, 7, 1),), None)


@pytest.mark.parametrize("text", ["1-10%", "1-10%0", "1-10%x", "1-10%2%3", "1-10%-1"])
def test_what_is_no_throttle_is_refused_with_an_example(text: str):
    with pytest.raises(UsageProblem, match="--array 1-1000%50"):
        parse_throttled(text)


_ranges = st.lists(st.tuples(st.integers(0, 50), st.integers(1, 5)), min_size=1, max_size=4)


@given(_ranges, st.integers(1, 9))
def test_what_is_printed_is_read_as_the_same(lengths, step: int):
    ranges, first = [], 0
    for length, gap in lengths:
        ranges.append((first, first + length, step if length else 1))
        first += length + gap
    assert parse_array(array_text(tuple(ranges))) == tuple(ranges)
