"""Stories of links from a seed: machines send, connections break, addresses change.

In the end all faults are over, one of each two machines sends to the other, and that arrives. In
one story of four there are no faults, and no link ends but those that are not needed.
"""

from __future__ import annotations

from functools import partial

from iriai.protocol.messages.effects import LinkUp
from iriai.sim.faults.search import failure_of
from iriai.sim.world.rng import Rng
from tests.sim.linking import End, LinkedMachine, LinkWorld

FAULTS_S = 400.0
PATIENCE_S = 90.0
"""More than the longest pause between attempts, and the time of those."""
SETTLED_S = 20.0
"""For the last messages to arrive over links that are there."""
SENDS, FAULTS, CALM = 120, 40, 4


def fails(seed: int) -> str | None:
    """Play the story of a seed; return what fails, or None."""
    return failure_of(partial(_play, seed))


def _play(seed: int) -> None:
    rng = Rng(seed, "links")
    world = LinkWorld(seed, delay_s=rng.pick([0.001, 0.02, 0.3]))
    names = [f"m{number}" for number in range(3 + rng.below(3))]
    for number, name in enumerate(names):
        if number >= 2 and rng.chance(0.4):
            world.add(name, is_outward_only=True)
            continue
        wrong = [f"nobody:{number}", f"{rng.pick(names[: number + 1])}:1"]
        told = [f"{name}:{port}" for port in (1, 2)] + [each for each in wrong if rng.chance(0.4)]
        told.sort(key=lambda _: rng.random())
        for port in (1, 2):
            world.at[f"{name}:{port}"] = name
        world.add(name, *dict.fromkeys(told))
    world.meet()
    for _ in range(SENDS):
        sender, receiver = rng.pick(names), rng.pick(names)
        if sender != receiver:
            world.agenda.at(rng.between(0, FAULTS_S), partial(_send, world, sender, receiver))
    is_calm = seed % CALM == 0
    for _ in range(0 if is_calm else FAULTS):
        world.agenda.at(rng.between(0, FAULTS_S), partial(_fault, world, rng, names))
    world.agenda.run_until(FAULTS_S)
    world.cut.clear()
    world.meet()
    world.agenda.run_until(FAULTS_S + PATIENCE_S)
    last = {name: len(world.machines[name].sent) for name in names}
    for number, name in enumerate(names):
        for other in names[:number]:
            _send(world, *((name, other) if rng.chance(0.5) else (other, name)))
    world.agenda.run_until(FAULTS_S + PATIENCE_S + SETTLED_S)
    for machine in world.machines.values():
        _check(world, machine, last[machine.name])
        names_up = [event.machine for _, event in machine.told]
        assert not is_calm or len(names_up) == len(set(names_up)), "a link was made in vain"


def _send(world: LinkWorld, sender: str, receiver: str) -> None:
    world.machines[sender].send(receiver)


def _fault(world: LinkWorld, rng: Rng, names: list[str]) -> None:
    one, other = rng.pick(names), rng.pick(names)
    kind = rng.random()
    if one == other:
        if kind < 0.3:
            world.restart(one)
        elif kind < 0.6 and world.machines[one].addresses:
            machine = world.machines[one]
            machine.addresses = machine.addresses[1:] + machine.addresses[:1]
            world.meet()
    elif kind < 0.6:
        world.break_connections(one, other)
    elif kind < 0.8:
        world.cut.add(frozenset((one, other)))
    else:
        world.cut.discard(frozenset((one, other)))


def _check(world: LinkWorld, machine: LinkedMachine, last: int) -> None:
    """Check what a machine sent, and its links."""
    for other in world.machines.values():
        if other is not machine:
            _check_pair(machine, other, last)
            _check_link(machine, other)


def _check_pair(sender: LinkedMachine, receiver: LinkedMachine, last: int) -> None:
    way = f"from {sender.name} to {receiver.name}"
    sent = [(n, at_s) for name, n, at_s in sender.sent if name == receiver.name]
    got = [n for name, run, n in receiver.received if (name, run) == (sender.name, sender.runs)]
    assert got == sorted(set(got)), f"messages {way} out of order, or twice"
    missing = [n for n, _ in sent if n >= last and n not in got]
    assert not missing, f"messages {way} do not arrive after all faults"
    ups_s = [
        at_s
        for at_s, event in sender.told
        if isinstance(event, LinkUp) and event.machine == receiver.name
    ]
    lost_s = max((at_s for n, at_s in sent if n not in got), default=-1.0)
    assert max(ups_s, default=-1.0) >= lost_s, f"messages {way} were lost, and nobody was told"
    is_new = not got or max(ups_s, default=-1.0) >= receiver.started_s
    assert is_new, f"messages {way} reach another run of it, and nobody was told"


def _check_link(one: LinkedMachine, other: LinkedMachine) -> None:
    """Check that both ends have the same link, or none: it was closed as idle meanwhile."""
    ours, theirs = _end(one, other), _end(other, one)
    is_same = ours is theirs is None or (ours is not None and _far(ours) is theirs)
    assert is_same, f"{one.name} and {other.name} have not the same link"


def _end(machine: LinkedMachine, other: LinkedMachine) -> End | None:
    peer = machine.core.peers.get(other.name)
    return machine.ends.get(peer.link) if peer is not None and peer.link is not None else None


def _far(end: End) -> End | None:
    """The other end of the connection of an end, or of its circuit."""
    if end.circuit is None:
        return end.far
    others = end.machine.world.machines
    key = end.circuit.key
    ends = others[key.far_end(end.machine.name)].circuits
    return next((each for circuit, each in ends.items() if circuit.key == key), None)
