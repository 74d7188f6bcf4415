"""Two commits are compared in turns, each round by the ratio of its own pair."""

import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def pair(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import pair

    yield pair
    for name in [each for each in sys.modules if each in ("pair", "harness", "limit")]:
        del sys.modules[name]


class FakeSide:
    def __init__(self, rates, order, name):
        self.rates = iter(rates)
        self.order = order
        self.name = name

    def measure(self, name, count):
        self.order.append(self.name)
        return {name: next(self.rates), "daemon_ms": 1.0}


def test_the_order_is_swapped_each_round_and_ratios_are_of_one_round(pair):
    order = []
    base = FakeSide([100.0, 50.0, 200.0], order, "base")
    head = FakeSide([90.0, 45.0, 220.0], order, "head")

    pairs = pair.compare((base, head), {"array_per_s": 10}, rounds=3)

    assert order == ["base", "head", "head", "base", "base", "head"]
    found = pair.summary(pairs["array_per_s"])
    assert (found["ratio"], found["ratio_min"], found["ratio_max"]) == (0.9, 0.9, 1.1)
    assert pair.summary(pairs["array_daemon_ms"])["ratio"] == 1.0


def test_a_figure_that_is_nothing_has_no_ratio(pair):
    assert pair.summary([(0.0, 1.0)]) == {}
