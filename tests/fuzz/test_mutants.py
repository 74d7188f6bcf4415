"""Mendings that are taken out are found: by the fuzzer, by a flood, or from outside."""

import pytest

from tests.fuzz import floods, port_floods
from tests.fuzz.live_mutants import LIVE, complaints
from tests.fuzz.mutants import IN_PROCESS, first_find, mutated
from tests.fuzz.scene import Scene, reported, scene_of
from tests.support.people import People

SEED = "mutants"
QUICK = (
    "T3a: nested values before Hello",
    "T9a: turns without end",
    "T9h: bytes of jobs that wait",
)


@pytest.fixture(scope="module")
def scene(people: People):
    """A daemon with all of its mendings."""
    with scene_of(people) as scene:
        yield scene


def harm(found: list[str]) -> list[str]:
    """All but how long turns took, which depends on what else the machine does."""
    return [each for each in found if "slow turns" not in each]


@pytest.mark.parametrize("name", IN_PROCESS)
def test_a_mending_that_is_taken_out_is_found(name, record_property):
    with mutated(name) as entrance:
        find = first_find(entrance, SEED)

    record_property("inputs", entrance.fed)
    assert find is not None


@pytest.mark.root
@pytest.mark.serial
@pytest.mark.parametrize("flood", floods.FLOODS, ids=lambda each: each.__name__)
def test_what_is_beyond_a_limit_is_refused_and_nobody_else_is_disturbed(scene: Scene, flood):
    assert harm(reported(scene, flood)) == []


@pytest.mark.root
@pytest.mark.serial
@pytest.mark.parametrize("flood", port_floods.AT_PORT, ids=lambda each: each.__name__)
def test_the_same_at_the_port_of_a_member(scene: Scene, flood):
    assert harm(reported(scene, flood, is_at_port=True)) == []


@pytest.mark.root
@pytest.mark.serial
@pytest.mark.parametrize("name", QUICK)
def test_a_mending_of_a_daemon_that_is_taken_out_is_reported(people: People, name):
    assert complaints(people, name)


@pytest.mark.root
@pytest.mark.soak
@pytest.mark.parametrize("name", [each for each in LIVE if each not in QUICK])
def test_so_is_every_other(people: People, name):
    assert complaints(people, name)
