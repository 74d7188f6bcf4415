"""Stories of links: two ends have the same link, addresses are tried in turn, losses are told."""

from __future__ import annotations

import pytest

from tests.sim.link_stories import fails


@pytest.mark.parametrize("first", range(1, 100, 20))
def test_links_come_back_after_all_faults(first: int):
    assert [found for seed in range(first, first + 20) if (found := fails(seed))] == []


@pytest.mark.long
def test_links_come_back_in_many_stories():
    assert [(seed, found) for seed in range(101, 1001) if (found := fails(seed))] == []
