"""Whole machines of which one lies: jobs of the others run once, end, and are counted right.

Whatever the liar has to say is now and then altered in one place (`lies`), as far as a daemon lets
it in: what cannot be decoded, or is not its own to say, is dropped. Then it is thrown out.
"""

from __future__ import annotations

from functools import partial

import msgspec

from iriai.machine.outbox import Turn
from iriai.model.ids import AttemptId, TaskId
from iriai.model.instant import Instant
from iriai.model.resources import Resources
from iriai.protocol.ledger.use_bounds import TOLERANCE
from iriai.protocol.messages.effects import Send
from iriai.sim.faults.scenario import LAN
from iriai.sim.faults.search import failure_of
from iriai.sim.faults.user_requests import Submission
from iriai.sim.world.clock import Clock
from iriai.sim.world.machine_model import MachinePlan, SimulatedMachine
from iriai.sim.world.rng import Rng
from iriai.sim.world.work import SUCCESS, ProcessModel, Work
from iriai.sim.world.world import World
from iriai.wire.parts import pack, unpack
from tests.sim.lying.lies import altered

LIAR = "liar"
BEGINS_S, ENDS_S = 10.0, 120.0
"""The times of the lies."""
PATIENCE_S = 1_000.0
"""Seconds after the lies in which all jobs of honest homes end."""
CHECK_EACH_S = 20.0
LIE_CHANCE = 0.3
"""The chance that a message is altered."""
JOBS = 12
BOUND_S = 1e8
"""More than a machine of the liar's size can count, and far less than it claims."""


def fails(seed: int) -> str | None:
    """Play the world of a seed; return what fails, or None."""
    return failure_of(lambda: _LyingWorld(seed).play())


class _LyingWorld:
    def __init__(self, seed: int) -> None:
        self._rng = Rng(seed, "lies")
        self._world = world = World(seed, LAN)
        self._runs: dict[TaskId, tuple[AttemptId, str]] = {}
        names = [f"m{number}" for number in range(2 + self._rng.below(2))]
        for name in (*names, LIAR):
            plan = MachinePlan(name, Resources(self._rng.pick((1, 2, 4)), 1 << 30), cluster="lab")
            machine = world.add(plan, Clock(self._rng.between(0.0, 1e6)))
            machine.liars = machine.launcher.liars = frozenset({LIAR})
        self._honest = [world.machines[name] for name in names]
        for machine in self._honest:
            machine.launcher.on_start = partial(self._starts, machine)
            machine.launcher.on_end = self._ends
        liar = world.machines[LIAR]
        liar.on_send = self._send
        world.watchers.append(self._check)

    def play(self) -> None:
        """Run jobs while the liar lies, and check that the jobs of honest homes end."""
        world = self._world
        for _ in range(JOBS):
            home = self._rng.pick([*self._honest, world.machines[LIAR]])
            world.agenda.at(
                self._rng.between(BEGINS_S, ENDS_S), partial(self._submit, home.plan.name)
            )
        world.run_until(ENDS_S)
        world.power_off(world.machines[LIAR])
        world.gone[LIAR] = None
        world.network.leave(LIAR)
        until_s = world.now_s + PATIENCE_S
        while self._unfinished():
            assert world.now_s < until_s, f"never end: {', '.join(self._unfinished())}"
            world.run_until(world.now_s + CHECK_EACH_S)
        followed = {machine.core.broker_at for machine in self._honest}
        assert len(followed) == 1, f"they follow {followed}"

    def _submit(self, home: str) -> None:
        rng = self._rng
        work = Work(rng.pick((0.5, 3.0, 10.0)), SUCCESS, False)
        tasks = rng.pick((1, 2, 5))
        submission = Submission(rng.pick(("ann", "bob")), 1, tasks, work)
        self._world.submit(home, submission.spec(), work)

    def _unfinished(self) -> list[str]:
        return [
            f"{machine.plan.name}-{number}"
            for machine in self._honest
            for number in machine.core.home.jobs
        ]

    # --- lies ------------------------------------------------------------------------------------

    def _send(self, machine: SimulatedMachine, send: Send) -> None:
        is_lie = BEGINS_S <= self._world.now_s < ENDS_S and self._rng.chance(LIE_CHANCE)
        if is_lie:
            message = altered(send.message, self._rng)
            try:
                message = unpack(pack(send.part, message))
            except (msgspec.MsgspecError, ValueError):
                return  # it would cost the liar its link
            send = Send(send.machine, send.part, message)
        self._world.network.send(machine, send)

    # --- what holds ------------------------------------------------------------------------------

    def _starts(self, machine: SimulatedMachine, process: ProcessModel) -> None:
        """Check that a task of an honest home runs on one honest machine at a time."""
        attempt = process.attempt
        if attempt.home == LIAR:
            return
        known = self._runs.setdefault(attempt.task, (attempt, machine.plan.name))
        assert known[0] == attempt, f"{attempt} starts on {machine.plan.name} beside {known}"

    def _ends(self, process: ProcessModel) -> None:
        if self._runs.get(process.attempt.task, (None, ""))[0] == process.attempt:
            del self._runs[process.attempt.task]

    def _check(self, machine: SimulatedMachine, _turn: Turn, now: Instant) -> None:
        if machine.plan.name == LIAR:
            return
        core = machine.core
        core.node.check()
        core.home.check()
        if core.broker_at != machine.plan.name:
            return
        core.broker.check()
        cpus = sum(each.plan.capacity.cpus for each in self._world.machines.values())
        most_s = TOLERANCE * cpus * self._world.now_s
        for account in core.broker.state.usage:
            used_s = core.broker.state.usage.usage_s(account, now.wall_s)
            assert used_s <= BOUND_S + most_s, f"{account} is said to have used {used_s:.0f} s"
