"""Rumours as paper 001 has them."""

from experiments.rumours import RumourSettings
from harness.paper_gossip import spread

from iriai.config.sections import GossipSection


def reached(settings: GossipSection | RumourSettings) -> list[float]:
    return spread(60, 5, settings, 0, rounds_max=100)


def test_rumours_stop_by_themselves_and_reach_most():
    found = reached(RumourSettings(60.0, 2, answers=True))
    assert len(found) < 100  # nobody tells it any more
    assert 0.8 <= found[-1] <= 1.0


def test_without_answers_fewer_hear_of_it():
    assert reached(RumourSettings(60.0, 1, answers=False))[-1] < 0.9


def test_the_product_reaches_all():
    assert reached(GossipSection(60.0))[-1] == 1.0
