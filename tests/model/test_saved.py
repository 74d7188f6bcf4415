"""How a task that nobody ended has ended, where it may say that it has saved itself."""

from __future__ import annotations

import pytest

from iriai.model.job import SAVED_SOONEST_S, end_by_itself
from iriai.model.state import EndCause
from tests.support.told import spec

C = EndCause


@pytest.mark.parametrize(
    ("code", "ran_s", "expected"),
    [
        (0, 0.0, C.COMPLETED),
        (1, 100.0, C.FAILED),
        (None, 100.0, C.FAILED),
        (85, 100.0, C.EVICTED),
        (85, SAVED_SOONEST_S, C.EVICTED),
        (85, SAVED_SOONEST_S * 0.99, C.FAILED),
    ],
)
def test_the_code_of_a_save_is_no_failure_unless_it_comes_too_soon(code, ran_s, expected):
    assert end_by_itself(spec(checkpoint_exit=85), code, ran_s)[0] is expected


def test_without_such_a_code_it_is_a_failure_like_any():
    assert end_by_itself(spec(), 85, 100.0) == (C.FAILED, "")


def test_what_is_told_names_the_code_and_why_it_counts_as_a_failure():
    assert end_by_itself(spec(checkpoint_exit=9), 9, 5.0)[1] == "it has saved itself (exit code 9)"
    assert "less than 1 s after its start" in end_by_itself(spec(checkpoint_exit=9), 9, 0.5)[1]
