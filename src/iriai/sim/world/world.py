"""A world in virtual time: machines with their own clocks, a network, users, faults.

One seed decides everything that is left to chance, each source of it by a generator of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from random import Random

from iriai.machine.events import MachineEvent
from iriai.machine.outbox import Turn
from iriai.model.ids import JobId
from iriai.model.instant import Instant
from iriai.model.job import JobSpec
from iriai.model.records import SectionSet
from iriai.protocol.clock_offset import Estimate
from iriai.protocol.messages.effects import Part
from iriai.sim.world.clock import Clock
from iriai.sim.world.event_queue import STEP, EventQueue
from iriai.sim.world.machine_model import MachinePlan, SimulatedMachine
from iriai.sim.world.network import Network, NetworkPlan
from iriai.sim.world.oracle_membership import OracleMembership
from iriai.sim.world.rng import generator
from iriai.sim.world.work import Work, Works

ZERO_DELAY = NetworkPlan()

Watcher = Callable[[SimulatedMachine, Turn, Instant], None]


class World:
    """Machines with their network and membership. Times are seconds of the world, from 0."""

    def __init__(
        self, seed: int = 1, network: NetworkPlan = ZERO_DELAY, *, through_wire: bool = False
    ) -> None:
        self.seed = seed
        self.agenda = EventQueue()
        self.works = Works()
        self.machines: dict[str, SimulatedMachine] = {}
        self.network = Network(network, self.agenda, seed, self.arrive)
        self.network.through_wire = through_wire
        self.members = OracleMembership(self.agenda, seed, self.arrive)
        self.watchers: list[Watcher] = []
        """Called after each turn of a machine."""
        self.accepted: dict[JobId, float] = {}
        """Jobs that are accepted, with the time."""
        self.settings: Sequence[SectionSet] = ()
        """What operators set, over the configuration in each machine's plan."""
        self.gone: dict[str, None] = {}
        """Machines that left for ever."""

    @property
    def now_s(self) -> float:
        """The current time."""
        return self.agenda.now_s

    # --- what there is ---------------------------------------------------------------------------

    def add(
        self, plan: MachinePlan, clock: Clock | None = None, broker_rng: Random | None = None
    ) -> SimulatedMachine:
        """Add a machine, linked with all that its parts talk to.

        Every machine with a home or a broker is linked with each other one; where brokers are
        elected, its cluster has one more member. `broker_rng` is for
        those who want the throws of another simulation.
        """
        clock = clock or Clock()
        name = plan.name
        machine = SimulatedMachine(
            plan,
            clock,
            self.works,
            generator(self.seed, f"{name}/node"),
            broker_rng or generator(self.seed, f"{name}/broker"),
        )
        machine.on_send = self.network.send
        machine.on_turn = self._has_turned
        machine.clock_of = partial(self._clock_of, machine)
        others = list(self.machines.values()) if self.network.has_links else []
        self.machines[name] = machine
        self.start_machine(machine)
        for other in others:
            talk = (Part.HOME, Part.BROKER)
            if any(part in each.plan.parts for each in (machine, other) for part in talk):
                self.network.join(machine, other)
        return machine

    def submit(self, home: str, spec: JobSpec, work: Work | None = None) -> JobId | None:
        """Submit a job; None if the daemon does not run. It is accepted once it is durable."""
        machine = self.machines[home]
        if not machine.is_up or machine.is_stopped:
            return None
        job = machine.submit(spec, self.now_s, self._is_accepted)
        if work is not None:
            self.works.give(home, job.number, work)
        self.touch(machine)
        return job

    def _clock_of(self, machine: SimulatedMachine, name: str) -> Estimate | None:
        """Return what a machine estimates of another's wall clock: wrong by as much as it may be.

        A message takes as long as the network lets it; half of that is the error.
        """
        other = self.machines.get(name)
        if other is None or not self.network.is_linked(machine.plan.name, name):
            return None
        here, there = machine.clock.at(self.now_s, ""), other.clock.at(self.now_s, "")
        error_s = self.network.round_trip_s / 2
        sign = 1.0 if machine.plan.name < name else -1.0
        return Estimate(there.wall_s - here.wall_s + sign * error_s, error_s)

    def _is_accepted(self, job: JobId) -> None:
        self.accepted[job] = self.now_s

    def present(self) -> list[SimulatedMachine]:
        """Return all machines but those that left for ever."""
        return [machine for name, machine in self.machines.items() if name not in self.gone]

    # --- what happens to machines ----------------------------------------------------------------

    def start_machine(self, machine: SimulatedMachine) -> None:
        """Start the daemon of a machine if it does not run."""
        if not machine.is_up and machine.plan.name not in self.gone:
            machine.start(self.now_s)
            self.members.machine_up(machine)
            self.touch(machine)

    def go_down(self, machine: SimulatedMachine, kept_turns: int = 0) -> None:
        """Kill the daemon; the first `kept_turns` of those not committed are kept."""
        if machine.is_up:
            machine.go_down(kept_turns)
            self.members.machine_down(machine)
            self.network.break_all_of(machine.plan.name)
            self.touch(machine)

    def power_off(self, machine: SimulatedMachine, kept_turns: int = 0) -> None:
        """Switch a machine off, with its tasks."""
        machine.power_off(self.now_s, kept_turns)
        self.members.machine_down(machine)
        self.network.break_all_of(machine.plan.name)
        self.touch(machine)

    def power_on(self, machine: SimulatedMachine) -> None:
        """Boot a machine: launcher and daemon."""
        if not machine.launcher.is_up and machine.plan.name not in self.gone:
            machine.start_launcher(self.now_s)
        self.start_machine(machine)
        self.touch(machine)

    def stop(self, machine: SimulatedMachine) -> None:
        """Stop the daemon (SIGSTOP); its events wait."""
        machine.is_stopped = True

    def wake(self, machine: SimulatedMachine) -> None:
        """Resume a daemon that is stopped."""
        if machine.is_up and machine.is_stopped:
            machine.is_stopped = False
            self.touch(machine)

    # --- time ------------------------------------------------------------------------------------

    def arrive(self, machine: SimulatedMachine, event: MachineEvent) -> None:
        """Deliver an event to a daemon, which handles it with all others of this moment."""
        machine.arrive(event)
        if not machine.is_due:
            self.touch(machine)

    def touch(self, machine: SimulatedMachine) -> None:
        """Plan the next step of a machine that changed."""
        if machine.is_due:
            return
        now_s, planned_s = self.agenda.now_s, machine.planned_s
        next_s = machine.next_s(now_s)
        if next_s <= now_s:
            machine.is_due = True
            self.agenda.at(now_s, partial(self._step, machine), STEP)
        elif not planned_s or next_s < planned_s[-1]:
            planned_s.append(next_s)
            self.agenda.at(next_s, partial(self._alarm, machine), STEP)

    def run_until(self, until_s: float) -> None:
        """Run all events up to a time."""
        self.agenda.run_until(until_s)

    def _alarm(self, machine: SimulatedMachine) -> None:
        """Perform a planned step, which may have nothing left to do."""
        machine.planned_s.pop()
        if not machine.is_due:
            self._step(machine)

    def _step(self, machine: SimulatedMachine) -> None:
        machine.is_due = False
        machine.step(self.agenda.now_s)
        self.touch(machine)

    def _has_turned(self, machine: SimulatedMachine, turn: Turn, now: Instant) -> None:
        if self.watchers:
            for watcher in tuple(self.watchers):
                watcher(machine, turn, now)
