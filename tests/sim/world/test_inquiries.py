"""Machines that ask each other in a world whose network loses messages and whose machines sleep."""

import pytest

from iriai.protocol.rpc.inquiries import PATIENCE_S
from tests.sim.peer_world import PeerWorld, Ways

NAMES = [f"m{number}" for number in range(8)]


def world_of(ways: Ways, **machine) -> PeerWorld:
    world = PeerWorld(7, ways)
    for name in NAMES:
        world.add(name, seeds=NAMES[:1], **machine)
    world.run_until(10.0)
    return world


def ask_all(world: PeerWorld, broker: str) -> dict[str, list[int]]:
    return {name: [world.ask(name, broker, f"{name}/{n}") for n in range(5)] for name in NAMES[2:]}


def ends(world: PeerWorld, asked: dict[str, list[int]]) -> list[str | None]:
    """How all of them ended; each has to have."""
    return [world.machines[name].answers[number] for name in asked for number in asked[name]]


@pytest.mark.parametrize("loss", [0.0, 0.2])
def test_all_are_answered_though_some_messages_are_lost(loss):
    world = world_of(Ways(loss=loss, through_wire=True))
    asked = ask_all(world, "m0")
    world.run_until(world.now_s + PATIENCE_S + 0.1)
    told = ends(world, asked)
    answered = [each for each in told if each is not None]
    assert len(answered) == len(set(answered))
    # Three tries, each lost with a chance of 0.36: one of twenty goes unanswered.
    assert len(answered) == len(told) if loss == 0.0 else len(answered) > 0.8 * len(told)


def test_one_that_sleeps_or_is_gone_is_given_up():
    world = world_of(Ways())
    world.crash("m0")
    world.sleep("m1", 60.0)
    asked = [ask_all(world, "m0"), ask_all(world, "m1")]
    world.run_until(world.now_s + 120.0)
    assert {end for each in asked for end in ends(world, each)} == {None}


def test_one_that_only_connects_outwards_asks_and_is_answered():
    world = PeerWorld(7, Ways())
    for name in NAMES:
        world.add(name, seeds=NAMES[:1], is_outward_only=name == "m3")
    world.run_until(10.0)
    number = world.ask("m3", "m0", "who?")
    world.run_until(world.now_s + 1.0)
    assert world.machines["m3"].answers == {number: "who?"}


def test_one_that_is_no_broker_names_its_own_which_is_asked_instead():
    world = world_of(Ways())
    world.machines["m1"].broker_at = "m2"
    number = world.ask("m0", "m1", "who?")
    world.run_until(world.now_s + 1.0)
    assert world.machines["m0"].answers == {number: "who?"}


def test_two_that_name_each_other_are_asked_once_each():
    world = world_of(Ways())
    world.machines["m1"].broker_at, world.machines["m2"].broker_at = "m2", "m1"
    number = world.ask("m0", "m1", "who?")
    world.run_until(world.now_s + PATIENCE_S)
    assert world.machines["m0"].answers == {number: None}
