"""Worlds of peers for tests: some machines that joined, and what they are asked."""

from __future__ import annotations

from iriai.protocol.messages.members import MemberState
from tests.sim.peer_world import PeerWorld, Ways

MEANWHILE_S = 30.0
"""Enough for everybody to have heard of everybody."""


def joined(count: int, seed: int = 1, ways: Ways | None = None, **settings) -> PeerWorld:
    """A world of `count` machines m0, m1, ... that all joined through the first."""
    world = PeerWorld(seed, ways, **settings)
    world.add("m0")
    for number in range(1, count):
        world.add(f"m{number}", ["m0"])
    assert world.run_until_true(lambda: all_know_all(world), MEANWHILE_S) is not None
    return world


def all_know_all(world: PeerWorld) -> bool:
    """Whether each that is up takes each other that is up for alive."""
    names = {machine.name for machine in world.up()}
    return all(
        {n for n, m in machine.peers.members.items() if m.state is MemberState.ALIVE}
        >= names - {machine.name}
        for machine in world.up()
    )


def all_take_for(world: PeerWorld, name: str, state: MemberState) -> bool:
    """Whether each other that is up takes `name` for that."""
    return all(machine.takes_for(name) is state for machine in world.up() if machine.name != name)


def have_one_table(world: PeerWorld) -> bool:
    """Whether all that are up hold the same."""
    return len({machine.peers.table.digest.checksum for machine in world.up()}) == 1


def codes(world: PeerWorld) -> set[str]:
    """Of all that was noticed."""
    return {notice.code for machine in world.machines.values() for notice in machine.notices}


def states_of(world: PeerWorld, name: str) -> set[MemberState]:
    """All that any machine ever took `name` for."""
    return {
        member.state
        for machine in world.machines.values()
        for member in machine.changes
        if member.name == name
    }
