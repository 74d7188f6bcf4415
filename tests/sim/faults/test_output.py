"""What a user reads is what the task printed: all of it, or a word that the rest is lost."""

from __future__ import annotations

import pytest

from tests.sim.output_stories import fails

pytestmark = pytest.mark.long


@pytest.mark.parametrize("first", range(1, 31, 10))
def test_output_comes_to_its_reader(first: int):
    assert [found for seed in range(first, first + 10) if (found := fails(seed))] == []


@pytest.mark.soak
def test_output_comes_to_its_reader_in_a_thousand_stories():
    assert [(seed, found) for seed in range(101, 1101) if (found := fails(seed))] == []
