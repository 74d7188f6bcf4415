"""What is over stays over, in little room."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iriai.launcher.journal import tombstones as forgotten_module
from iriai.launcher.journal.tombstones import TRIES_APART_MAX, IntervalSet, Tombstones
from iriai.model.ids import NOTICE_ATTEMPT, AttemptId

numbers = st.lists(st.integers(0, 60))
attempts = st.builds(
    AttemptId,
    st.sampled_from(["ume", "matsu"]),
    st.integers(0, 8),
    st.integers(0, 8),
    st.integers(1, 2),
)


@given(numbers)
def test_spans_hold_what_was_added_and_nothing_else(added: list[int]):
    spans = IntervalSet()
    for number in added:
        spans.add(number, number)
    assert [number for number in range(-1, 62) if number in spans] == sorted(set(added))


@given(numbers)
def test_spans_are_ascending_and_apart(added: list[int]):
    spans = IntervalSet()
    for number in added:
        spans.add(number, number)
    flat = [number for span in spans.spans() for number in span]
    assert flat == sorted(flat)
    pairs = spans.spans()
    assert all(last + 1 < first for (_, last), (first, _) in pairwise(pairs))


@given(numbers, st.integers(1, 5))
def test_closing_gaps_keeps_everything_and_so_many_spans(added: list[int], keep: int):
    spans = IntervalSet()
    for number in added:
        spans.add(number, number)
    before = len(spans)
    spans.close_gaps(keep)
    assert len(spans) == min(before, keep)
    assert all(number in spans for number in added)


def test_the_narrowest_gaps_are_closed_first():
    spans = IntervalSet([(0, 0), (2, 2), (10, 10), (13, 13)])
    spans.close_gaps(2)
    assert spans.spans() == ((0, 2), (10, 13))


@given(st.lists(attempts), st.lists(attempts))
def test_exactly_what_was_forgotten_is_known(added: list[AttemptId], others: list[AttemptId]):
    forgotten = Tombstones()
    for each in added:
        forgotten.add([each])
    known = {each.seat(0) for each in added}  # a machine has one seat of an attempt
    assert all((each in forgotten) == (each.seat(0) in known) for each in added + others)
    again = Tombstones(forgotten.lines())
    assert all((each in again) == (each.seat(0) in known) for each in added + others)


def test_jobs_and_arrays_that_end_take_no_more_room():
    forgotten = Tombstones()
    for number in range(500):
        forgotten.add([AttemptId("ume", number, 0, 1)])
    for index in range(500):
        forgotten.add([AttemptId("ume", 500, index, 1)])
    assert sum(len(spans) for _, spans in forgotten.lines()) == 2


def test_with_little_room_more_counts_as_over_and_nothing_less(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(forgotten_module, "SPANS_MAX", 10)
    forgotten = Tombstones()
    added = [AttemptId("ume", 3 * number, number % 4, 1 + number % 2) for number in range(100)]
    for each in added:
        forgotten.add([each])
        assert sum(len(spans) for _, spans in forgotten.lines()) <= 10
    assert all(each in forgotten for each in added)
    assert AttemptId("ume", 1000, 0, 1) not in forgotten
    assert AttemptId("matsu", 3, 0, 1) not in forgotten


def test_attempts_of_ever_higher_numbers_end_and_take_little_room():
    forgotten = Tombstones()
    for tries in range(1, 3 * TRIES_APART_MAX):
        forgotten.add([AttemptId("ume", 1, 0, tries)])
    assert len(forgotten.lines()) == TRIES_APART_MAX
    assert AttemptId("ume", 1, 0, 2 * TRIES_APART_MAX) in forgotten
    assert AttemptId("ume", 2, 0, 2 * TRIES_APART_MAX) not in forgotten


def test_more_lines_than_spans_may_be_are_each_one_span(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(forgotten_module, "SPANS_MAX", 10)
    forgotten = Tombstones()
    for number in range(40):
        forgotten.add([AttemptId(f"home{number}", 1, 0, 1), AttemptId(f"home{number}", 9, 0, 1)])
    assert all(len(spans) == 1 for _, spans in forgotten.lines())


def test_each_of_the_news_of_a_reservation_is_apart_from_notices_of_jobs():
    job, news = AttemptId("ume", 1, 0, NOTICE_ATTEMPT), AttemptId("ume", 1, 0, NOTICE_ATTEMPT, 1)
    occurrence = AttemptId("ume", 999_000_000_001, 4, NOTICE_ATTEMPT, 1)
    over = Tombstones()
    over.add([job])
    assert news not in over
    over.add([news, occurrence])
    assert job in over
    assert news in over
    assert news._replace(rank=2) not in over
    assert news._replace(index=1) not in over
    assert all(last < 1 << 63 for _, spans in over.lines() for span in spans for last in span)
