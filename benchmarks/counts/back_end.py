"""A short task through a front end and a back end, in virtual time, with messages as bytes.

`turns`, `commits`, `messages`, `frames` (messages of a turn to one machine) and `wire_bytes` are of
both machines. `virtual_us` is the virtual time a task takes of the whole array: it rises where a
machine waits for something on the way, which no other count shows.
"""

from __future__ import annotations

from collections import Counter as Tally
from pathlib import Path
from typing import TYPE_CHECKING

from counts import scripted
from counts.counter import Counter

if TYPE_CHECKING:
    from iriai.machine.outbox import Turn
    from iriai.model.instant import Instant
    from iriai.sim.world.machine_model import SimulatedMachine

CPUS = 64
WARM_UP_TASKS, TASKS = 200, 800
RUN_S = 0.02
DELAY_S, JITTER_S = 0.001, 0.0005
"""Of a message."""
SYNC_S = 0.003
"""Of a commit."""
STEP_S = 0.001


def measure(_: Path) -> dict[str, dict[str, float]]:
    """Count a task of an array."""
    scripted.settle(whole=False)
    from iriai.model.ids import Account
    from iriai.model.resources import Resources
    from iriai.protocol.messages.effects import Part, Send
    from iriai.sim.world.machine_model import MachinePlan
    from iriai.sim.world.network import NetworkPlan
    from iriai.sim.world.work import Work, plain_job
    from iriai.sim.world.world import World
    from iriai.wire.parts import pack

    counter, tally = Counter(), Tally[str]()

    def turned(_machine: SimulatedMachine, turn: Turn, _: Instant) -> None:
        with counter.paused():
            sends = [e for e in turn.outward if isinstance(e, Send)]
            tally["turns"] += 1
            tally["commits"] += turn.is_urgent
            tally["messages"] += len(sends)
            tally["frames"] += len({e.machine for e in sends})
            tally["wire_bytes"] += sum(len(pack(e.part, e.message).body) for e in sends)

    world = World(1, NetworkPlan(DELAY_S, JITTER_S), through_wire=True)
    world.add(MachinePlan("front", parts=(Part.HOME, Part.BROKER), sync_s=SYNC_S))
    room = Resources(CPUS, 1 << 30)
    world.add(MachinePlan("b1", room, parts=(Part.NODE,), broker_at="front", sync_s=SYNC_S))
    world.run_until(1.0)
    front = world.machines["front"]

    def run_array(tasks: int) -> float:
        """Run an array; return the virtual time it took, in seconds."""
        began_s, wanted = world.now_s, len(front.store.results) + tasks
        spec = plain_job(Account("lab", "ann"), Resources(1), None, tasks)
        world.submit("front", spec, Work(RUN_S))
        while len(front.store.results) < wanted:
            world.run_until(world.now_s + STEP_S)
        return world.now_s - began_s

    run_array(WARM_UP_TASKS)
    world.watchers.append(turned)
    with counter.on("back_end_task"):
        took_s = run_array(TASKS)
    counter.tell_functions()
    counts = {name: count / TASKS for name, count in (counter.counts | tally).items()}
    del counts["system_calls"]
    return {"back_end_task": counts | {"virtual_us": 1e6 * took_s / TASKS}}
