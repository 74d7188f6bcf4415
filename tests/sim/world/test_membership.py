"""Who is there, in simulated worlds: product's cores, delays, loss, sleep, partitions."""

from __future__ import annotations

from math import log2

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iriai.config.sections import GossipSection
from iriai.protocol.directory.directory import LOST_EACH
from iriai.protocol.directory.publisher import PACES
from iriai.protocol.membership.membership import MembershipSettings
from iriai.protocol.messages.entries import EntryKind
from iriai.protocol.messages.members import MemberState
from iriai.sim.world.clock import Clock
from tests.sim.peer_stories import (
    MEANWHILE_S,
    all_know_all,
    all_take_for,
    codes,
    have_one_table,
    joined,
    states_of,
)
from tests.sim.peer_world import PeerWorld, Ways

SLOW_S = 10.0
"""The period of machines that are to live for many hours."""
SUSPECTED_S = 60.0
"""By then somebody who is gone was probed, had its time, and everybody heard of it."""


@pytest.mark.parametrize("count", [4, 16, 40])
def test_a_newcomer_is_known_to_all_within_logarithmic_time(count):
    world = joined(count)
    world.run_until(MEANWHILE_S)

    world.add("newcomer", ["m0"])
    known_s = world.run_until_true(lambda: all_know_all(world), 2 * MEANWHILE_S)

    assert known_s is not None
    assert known_s - MEANWHILE_S <= 2 * log2(count) + 3  # seconds are rounds


def test_a_machine_that_dies_is_dead_to_all_and_one_that_lives_is_not():
    world = joined(20)
    world.crash("m7")

    assert world.run_until_true(
        lambda: all_take_for(world, "m7", MemberState.DEAD), world.now_s + SUSPECTED_S
    )
    for machine in world.up():
        machine.peers.check()
        assert MemberState.DEAD not in states_of(world, machine.name)


def test_a_machine_that_comes_back_is_alive_to_all():
    world = joined(10)
    world.crash("m3")
    world.run_until_true(
        lambda: all_take_for(world, "m3", MemberState.DEAD), world.now_s + SUSPECTED_S
    )

    world.add("m3", ["m1"])

    assert world.run_until_true(lambda: all_know_all(world), world.now_s + MEANWHILE_S)


def test_one_that_comes_back_with_an_older_incarnation_hears_its_echo():
    """Its clock was set back, and it remembers nothing."""
    world = joined(10)
    world.crash("m3")
    world.run_until(world.now_s + SUSPECTED_S)

    world.add("m3", ["m1"], incarnation=0)

    assert world.run_until_true(lambda: all_know_all(world), world.now_s + MEANWHILE_S)
    assert codes(world) == set()


@pytest.mark.parametrize("seed", range(2))
def test_with_a_tenth_of_messages_lost_false_suspicions_are_refuted(seed):
    world = joined(16, seed, Ways(loss=0.1))
    world.run_until(120.0)

    for machine in world.up():
        assert MemberState.DEAD not in states_of(world, machine.name)
    assert any(MemberState.SUSPECT in states_of(world, m.name) for m in world.up())
    assert world.run_until_true(lambda: all_know_all(world), world.now_s + MEANWHILE_S)


def test_a_laptop_that_slept_takes_nobody_for_dead():
    world = joined(8)
    world.sleep("m5", 300.0)
    world.run_until(world.now_s + 300.0)
    changes = len(world.machines["m5"].changes)

    assert world.run_until_true(lambda: all_know_all(world), world.now_s + 2 * MEANWHILE_S)

    seen = {member.state for member in world.machines["m5"].changes[changes:]}
    assert MemberState.DEAD not in seen
    assert MemberState.DEAD in states_of(world, "m5")  # the others missed it, and it came back


def test_one_that_slept_gives_those_it_suspected_their_time_back():
    world = joined(8)
    world.part({"m1": 1})
    assert world.run_until_true(
        lambda: world.machines["m5"].takes_for("m1") is MemberState.SUSPECT, world.now_s + 30.0
    )
    world.sleep("m5", 300.0)
    world.heal()
    changes = len(world.machines["m5"].changes)

    world.run_until(world.now_s + 400.0)

    seen = {member.state for member in world.machines["m5"].changes[changes:]}
    assert MemberState.DEAD not in seen
    assert world.machines["m5"].takes_for("m1") is MemberState.ALIVE


def test_a_clock_that_runs_a_year_ahead_disturbs_nobody():
    world = joined(8)
    world.add("ahead", ["m0"], clock=Clock(wall_offset_s=3.15e7, drift=0.005))

    world.run_until(120.0)

    assert all_know_all(world)
    assert MemberState.DEAD not in states_of(world, "ahead")


def test_a_machine_that_leaves_is_gone_at_once_and_nobody_suspects_it():
    world = joined(16)
    world.leave("m4")

    assert world.run_until_true(
        lambda: all_take_for(world, "m4", MemberState.LEFT), world.now_s + 5.0
    )
    world.run_until(world.now_s + SUSPECTED_S)
    assert states_of(world, "m4") <= {MemberState.ALIVE, MemberState.LEFT}


def test_a_replayed_leave_changes_nothing():
    world = joined(6)
    world.leave("m2")
    world.run_until(world.now_s + 10.0)
    left = [
        carried
        for carried in world.machines["m0"].peers.snapshot(now(world))
        if carried.entry.machine == "m2"
    ]
    world.add("m2", ["m0"])
    assert world.run_until_true(lambda: all_know_all(world), world.now_s + MEANWHILE_S)

    for carried in left:
        world.machines["m1"].peers.table.merge(carried, "m5", now(world))
    world.run_until(world.now_s + MEANWHILE_S)

    assert all_know_all(world)


def now(world):
    return world.machines["m0"].clock.at(world.now_s)


def test_halves_that_were_parted_find_each_other_again():
    world = joined(12)
    world.part({f"m{number}": 1 for number in range(6)})
    world.run_until(world.now_s + 3 * SUSPECTED_S)
    assert world.machines["m0"].takes_for("m11") is MemberState.DEAD
    assert world.machines["m0"].takes_for("m5") is MemberState.ALIVE

    world.heal()

    assert world.run_until_true(lambda: all_know_all(world), world.now_s + 3 * SUSPECTED_S)
    assert world.run_until_true(lambda: have_one_table(world), world.now_s + MEANWHILE_S)


@pytest.mark.long
def test_halves_that_forgot_each_other_find_each_other_again():
    slow = {
        "membership": MembershipSettings(period_s=SLOW_S),
        "directory": GossipSection(period_s=SLOW_S),
    }
    world = joined(4, **slow)
    world.part({"m0": 1, "m1": 1})
    world.run_until(world.now_s + 2 * PACES[EntryKind.MEMBER].lifetime_s)
    assert [set(world.machines[name].peers.members) for name in ("m0", "m2")] == [{"m1"}, {"m3"}]

    world.heal()

    assert world.run_until_true(
        lambda: all_know_all(world), world.now_s + (2 * LOST_EACH + 3) * SLOW_S
    )
    for machine in world.up():
        machine.peers.check()


def test_machines_that_can_only_connect_outwards_take_part():
    world = PeerWorld(1)
    world.add("m0")
    for number in range(1, 18):
        world.add(f"m{number}", ["m0"], is_outward_only=number % 3 == 0)

    assert world.run_until_true(lambda: all_know_all(world), MEANWHILE_S)
    world.run_until(120.0)
    for machine in world.up():
        assert MemberState.DEAD not in states_of(world, machine.name)
        assert not {f"m{n}" for n in range(3, 18, 3)} & set(machine.peers.directory.partners)


def test_two_machines_of_one_name_are_named():
    world = joined(6)
    world.add("m9", ["m0"], instance="first")
    world.run_until(world.now_s + 5.0)
    first = world.machines["m9"]
    world.add("m9", ["m0"], instance="copy")  # the first goes on, but hears nothing any more
    world.run_until(world.now_s + 5.0)
    second = world.machines["m9"]
    world.machines["m9"] = first  # as where a switch sends packets now to one, now to the other
    world.run_until(world.now_s + 10.0)
    world.machines["m9"] = second
    world.run_until(world.now_s + 10.0)

    noticed = {
        n.machine for m in world.up() for n in m.notices if n.code == "two-machines-one-name"
    }
    assert noticed == {"m9"}


happenings = st.lists(
    st.tuples(
        st.sampled_from(["crash", "sleep", "leave", "back", "part", "heal"]),
        st.integers(1, 8),
        st.floats(0.5, 40.0),
    ),
    max_size=12,
)


@pytest.mark.long
@given(happenings, st.integers(0, 1000), st.sampled_from([0.0, 0.1]))
@settings(max_examples=15, deadline=None)
def test_whatever_happens_all_agree_in_the_end(story, seed, loss):
    world = PeerWorld(seed, Ways(loss=loss))
    world.add("m0")
    for number in range(1, 9):
        world.add(f"m{number}", ["m0"])
    for what, which, pause_s in story:
        machine = world.machines[f"m{which}"]
        if what == "crash":
            world.crash(machine.name)
        elif what == "leave" and machine.is_up:
            world.leave(machine.name)
        elif what == "sleep" and machine.is_up and not machine.is_asleep:
            world.sleep(machine.name, pause_s)
        elif what == "back" and not machine.is_up:
            world.add(machine.name, ["m0"])
        elif what == "part":
            world.part({f"m{number}": 1 for number in range(which)})
        elif what == "heal":
            world.heal()
        world.run_until(world.now_s + pause_s)
    world.heal()
    gone = [machine.name for machine in world.machines.values() if not machine.is_up]
    there = {machine.name for machine in world.up()}

    def agreed() -> bool:
        return all(
            {n for n, m in machine.peers.members.items() if m.state is MemberState.ALIVE}
            == there - {machine.name}
            for machine in world.up()
        )

    assert world.run_until_true(agreed, world.now_s + 400.0) is not None, (gone, there)
    assert codes(world) == set()
    for machine in world.up():
        machine.peers.check()


def test_who_says_the_same_again_is_not_told_with_probes():
    """It reaches all by the directory; with each probe it would cost a large cluster most."""
    world = joined(12)
    world.run_until(2 * MEANWHILE_S)
    told = []
    world.on_send = lambda machine, send: told.append(send.message)
    m3 = world.machines["m3"]

    world.perform(m3, m3.member.announce(m3.peers.publisher.member, m3.clock.at(world.now_s)))
    world.run_until(3 * MEANWHILE_S)

    assert have_one_table(world)
    news = [message.news.members for message in told if hasattr(message, "news")]
    assert len(news) > 100
    assert not any(news)
