"""A policy changes jobs at random while much breaks: no job is lost, none is changed without leave.

The checkers look at it; seeds differ in what their homes permit.
"""

from __future__ import annotations

from collections import Counter

import pytest

from iriai.model.policy_terms import JobAction
from iriai.protocol.messages.effects import Delivered, Part
from iriai.protocol.messages.proposals import Propose, Proposed
from iriai.sim.faults.changing import STRAY, changing_scenario
from iriai.sim.faults.checker import Checker
from iriai.sim.faults.scenario import FAULTS_UNTIL_S
from iriai.sim.faults.search import HEALED_S, fails, play

pytestmark = pytest.mark.long


@pytest.mark.parametrize("seed", range(1, 41))
def test_every_job_ends_whatever_a_policy_changes(seed):
    assert fails(changing_scenario(seed)) is None


@pytest.mark.soak
def test_so_it_does_in_many_stories():
    wrong = {seed: found for seed in range(1, 2001) if (found := fails(changing_scenario(seed)))}
    assert not wrong


def test_all_of_it_happens_in_these_stories():
    told: Counter[str] = Counter()
    for seed in range(1, 21):
        _count(seed, told)
    for action in JobAction:
        assert told[f"{action} done"], f"no home obeyed a {action}"
    assert told["refused"]
    assert told["stray"]


def _count(seed: int, told: Counter[str]) -> None:
    """Play a story; count what brokers proposed and homes answered, between machines."""
    scenario = changing_scenario(seed)
    world = scenario.world()
    arrive, asked = world.network.on_arrival, {}

    def arrives(machine, event):
        message = event.message if isinstance(event, Delivered) else None
        if isinstance(message, Propose):
            told["stray"] += message.policy == STRAY
            asked[message.job, message.number] = message.action
        elif isinstance(message, Proposed) and event.part is Part.BROKER:
            action = asked.get((message.job, message.number))
            told["refused" if message.refusal else f"{action} done"] += 1
        arrive(machine, event)

    world.network.on_arrival = arrives
    until_s = FAULTS_UNTIL_S + HEALED_S
    play(world, scenario, Checker(world, is_calm=scenario.is_calm, calm_from_s=until_s))
