"""Many machines and no head, against an oracle and a central manager, on the same arrivals.

Single tasks of one cpu come in at many homes; machines have one cpu each. The product's nodes,
homes and brokers run in virtual time. The oracle gives each task to a machine first come, first
served, in no time; the central manager hears of ends and arrivals at once but for the network, and
decides once in a cycle.
"""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from heapq import heapify, heappop, heappush
from math import ceil
from statistics import fmean

from experiments.gossip_membership import GossipMembers
from experiments.open_network import Delays, OpenNetwork
from iriai.config.reader import Configuration
from iriai.config.sections import OrderSection
from iriai.model.ids import Account, JobId
from iriai.model.resources import Resources
from iriai.protocol.messages.effects import Part
from iriai.sim.world.machine_model import MachinePlan, SimulatedMachine
from iriai.sim.world.rng import Rng
from iriai.sim.world.work import ProcessModel, Work, plain_job
from iriai.sim.world.world import World

SETTLE_S = 60.0
"""Machines find each other before the first submission."""
LAN = Delays()
PAPER = Delays(median_s=0.036, sigma=0.5, longest_s=0.100)
"""Round trips up to 200 ms."""
CONFIGURATION = Configuration(order=OrderSection(name="fifo", offpeak_factor=1.0))


@dataclass(frozen=True, slots=True)
class Variant:
    """The settings of one trial."""

    machines: int
    homes: int
    """The number of machines with a home; 1: a machine of its own that runs nothing."""
    cluster_machines: int = 0
    """How many machines are one cluster; 0: all."""
    load: float = 1.0
    """The work that arrives, as a part of what all machines can do."""
    shortest_s: float = 1800.0
    longest_s: float = 3600.0
    warm_s: float = 1800.0
    """Seconds before the window."""
    window_s: float = 7200.0
    loss: float = 0.0
    broker_dies_each_s: float = 0.0
    broker_away_s: float = 60.0
    delays: Delays = LAN
    gossiping: int | None = None
    """How many clusters gossip, with each other; None: all. Others use an oracle."""
    is_saturated: bool = False
    """Whether more waits than all machines can do, from the beginning."""
    seed: int = 1

    @property
    def end_s(self) -> float:
        """Seconds from the first arrival to the end of the window."""
        return self.warm_s + self.window_s

    @property
    def clusters(self) -> int:
        """The number of clusters."""
        return ceil(self.machines / self.cluster_machines) if self.cluster_machines else 1

    @property
    def gossiping_clusters(self) -> frozenset[str]:
        """The names of the clusters that gossip."""
        count = self.clusters if self.gossiping is None else self.gossiping
        return frozenset(f"lab{number}" for number in range(count))

    @property
    def mean_s(self) -> float:
        """The mean run time of a task."""
        return (self.shortest_s + self.longest_s) / 2.0


@dataclass(frozen=True, slots=True)
class Arrival:
    """A task."""

    at_s: float
    run_s: float


Stretch = tuple[float, float]
"""Begin and end of a run, from the first arrival on."""


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one trial."""

    utilisation: float
    waits_s: tuple[float, ...]
    """Of each arrival in the window that started, in the order of arrival; -1: it did not."""


def arrivals_of(setting: Variant) -> list[Arrival]:
    """Return Poisson arrivals; at the beginning one for each machine, with a part of its time.

    So that the machines are as busy at once as they are in the long run.
    """
    rng = Rng(setting.seed, "arrivals")
    between = partial(rng.between, setting.shortest_s, setting.longest_s)
    begun = int(setting.machines * min(1.0, setting.load))
    found = [Arrival(0.0, rng.random() * between()) for _ in range(begun)]
    if setting.is_saturated:
        count = ceil(1.2 * setting.machines * setting.end_s / setting.mean_s)
        return found + [Arrival(0.0, between()) for _ in range(count)]
    gap_s = setting.mean_s / (setting.machines * setting.load)
    at_s = rng.exponential(gap_s)
    while at_s < setting.end_s:
        found.append(Arrival(at_s, between()))
        at_s += rng.exponential(gap_s)
    return found


def oracle(setting: Variant, arrivals: Sequence[Arrival]) -> Result:
    """Serve tasks first come, first served, without delay: one line for all machines."""
    return oracle_of_lines(replace(setting, cluster_machines=0), arrivals)


def oracle_of_lines(setting: Variant, arrivals: Sequence[Arrival]) -> Result:
    """Serve tasks as the oracle does, with a line for each cluster in which tasks wait.

    A machine takes the first of its own line, and of another where that is empty.
    """
    line_machines = setting.cluster_machines or setting.machines
    cluster_of = [number // line_machines for number in range(setting.machines)]
    free = [cluster_of.count(number) for number in range(setting.clusters)]
    homes = cluster_of[: setting.homes] if setting.homes > 1 else [0]
    lines: list[deque[int]] = [deque() for _ in free]
    rng = Rng(setting.seed, "homes")
    ends: list[tuple[float, int]] = []
    starts: dict[int, float] = {}

    def start(number: int, cluster: int, at_s: float) -> None:
        starts[number] = at_s
        heappush(ends, (at_s + arrivals[number].run_s, cluster))

    def free_until(until_s: float) -> None:
        while ends and ends[0][0] <= until_s:
            at_s, cluster = heappop(ends)
            waiting = [line for line in (lines[cluster], *lines) if line]
            if waiting:
                start(waiting[0].popleft(), cluster, at_s)
            else:
                free[cluster] += 1

    for number, arrival in enumerate(arrivals):
        free_until(arrival.at_s)
        own = rng.pick(homes)
        found = next((c for c in (own, *range(len(free))) if free[c]), None)
        if found is None:
            lines[own].append(number)
        else:
            free[found] -= 1
            start(number, found, arrival.at_s)
    free_until(setting.end_s)
    stretches = [(at_s, at_s + arrivals[number].run_s) for number, at_s in starts.items()]
    return _result(setting, arrivals, stretches, starts)


def central(setting: Variant, arrivals: Sequence[Arrival], cycle_s: float) -> Result:
    """Serve tasks as a manager that matches first come, first served, once in each cycle."""
    rng = Rng(setting.seed, f"central/{cycle_s}")

    def hop_s() -> float:
        delays = setting.delays
        return min(delays.longest_s, rng.lognormal(delays.median_s, delays.sigma))

    known_free = [0.0] * setting.machines
    heapify(known_free)
    stretches, starts = [], []
    tick_s = 0.0
    for arrival in arrivals:
        ready_s = max(arrival.at_s + hop_s(), known_free[0], tick_s)
        tick_s = ceil(ready_s / cycle_s) * cycle_s
        heappop(known_free)
        start_s = tick_s + hop_s()
        end_s = start_s + arrival.run_s
        heappush(known_free, end_s + hop_s())
        stretches.append((start_s, end_s))
        starts.append(start_s)
    return _result(setting, arrivals, stretches, dict(enumerate(starts)))


class Trial:
    """The product in a world of its own."""

    def __init__(self, setting: Variant, arrivals: Sequence[Arrival]) -> None:
        self.setting = setting
        self._arrivals = arrivals
        self.world = World(setting.seed)
        self.network = OpenNetwork(
            setting.delays,
            setting.loss,
            self.world.agenda,
            setting.seed,
            self.world.arrive,
            self.world.machines,
        )
        self.world.network = self.network
        self.world.members = GossipMembers(self.world, self.network, setting.gossiping_clusters)
        self._numbers: dict[JobId, int] = {}
        self._starts: dict[int, float] = {}
        self._stretches: list[Stretch] = []
        self._rng = Rng(setting.seed, "homes")
        self._homes = self._build()

    def _build(self) -> list[SimulatedMachine]:
        setting = self.setting
        homes = []
        self.world.members.gather()
        for number in range(setting.machines):
            is_home = setting.homes > 1 and number < setting.homes
            parts = (Part.NODE, Part.HOME, Part.BROKER) if is_home else (Part.NODE, Part.BROKER)
            cluster = number // setting.cluster_machines if setting.cluster_machines else 0
            machine = self._add(f"m{number}", parts, f"lab{cluster}")
            machine.launcher.on_start = self._started
            machine.launcher.on_end = self._ended
            if is_home:
                homes.append(machine)
        homes = homes or [self._add("home", (Part.HOME,), "lab0")]
        self.world.members.gathered()
        gc.collect()
        gc.freeze()  # as the daemon does, once it is up: what is there stays
        return homes

    def _add(self, name: str, parts: tuple[Part, ...], cluster: str) -> SimulatedMachine:
        plan = MachinePlan(name, Resources(1), parts, configuration=CONFIGURATION, cluster=cluster)
        return self.world.add(plan)

    def run(self) -> Result:
        """Run the world to the end of the window and return the result."""
        world, setting = self.world, self.setting
        world.run_until(SETTLE_S)
        for number, arrival in enumerate(self._arrivals):
            world.agenda.at(SETTLE_S + arrival.at_s, partial(self._submit, number, arrival))
        if setting.broker_dies_each_s:
            world.agenda.after(setting.broker_dies_each_s, self._kill)
        world.run_until(SETTLE_S + setting.warm_s)
        self.network.bytes_of.clear()
        self.network.gossip_bytes_of.clear()
        self.network.counts.clear()
        world.run_until(SETTLE_S + setting.end_s)
        for machine in world.machines.values():
            for process in machine.launcher.running.values():
                self._ended(process)
        return _result(setting, self._arrivals, self._stretches, self._starts)

    def _submit(self, number: int, arrival: Arrival) -> None:
        """Submit a task at a random home that is up."""
        for _ in range(100):
            home = self._rng.pick(self._homes)
            account = Account("lab", f"u{number % 10}")
            limit_s = self.setting.longest_s * 2.0
            spec = plain_job(account, Resources(1), limit_s)
            job = self.world.submit(home.plan.name, spec, Work(arrival.run_s))
            if job is not None:
                self._numbers[job] = number
                return
        self.world.agenda.after(1.0, partial(self._submit, number, arrival))

    def _kill(self) -> None:
        setting = self.setting
        for machine in self.world.machines.values():
            if machine.is_up and Part.BROKER in machine.core.parts:
                self.world.go_down(machine)
                come_up = partial(self.world.start_machine, machine)
                self.world.agenda.after(setting.broker_away_s, come_up)
        self.world.agenda.after(setting.broker_dies_each_s, self._kill)

    def _started(self, process: ProcessModel) -> None:
        attempt = process.attempt
        number = self._numbers[JobId(attempt.home, attempt.number)]
        self._starts.setdefault(number, process.started_s - SETTLE_S)

    def _ended(self, process: ProcessModel) -> None:
        self._stretches.append((process.started_s - SETTLE_S, process.end_s - SETTLE_S))

    def bytes_per_s(self) -> dict[str, float]:
        """Return the bytes per second sent and received in the window, by machine.

        Where a sample gossips, its mean stands for the gossip of all others.
        """
        window_s = self.setting.window_s
        sent, gossip = self.network.bytes_of, self.gossip_per_s()
        mean = fmean(gossip.values()) if gossip else 0.0
        machines = self.world.machines
        return {name: sent.get(name, 0) / window_s + gossip.get(name, mean) for name in machines}

    def gossip_per_s(self) -> dict[str, float]:
        """Return the part of gossip in `bytes_per_s`, of the machines that gossip."""
        sent, window_s = self.network.gossip_bytes_of, self.setting.window_s
        return {name: sent[name] / window_s for name in sent}

    def broker_names(self) -> list[str]:
        """Return the names of the current brokers."""
        machines = self.world.machines.items()
        return [name for name, each in machines if each.is_up and Part.BROKER in each.core.parts]


def _result(
    setting: Variant,
    arrivals: Sequence[Arrival],
    stretches: Sequence[Stretch],
    starts: dict[int, float],
) -> Result:
    begin_s, end_s = setting.warm_s, setting.end_s
    busy_s = sum(max(0.0, min(b, end_s) - max(a, begin_s)) for a, b in stretches)
    waits_s = tuple(
        starts[number] - arrival.at_s if starts.get(number, end_s) < end_s else -1.0
        for number, arrival in enumerate(arrivals)
        if arrival.at_s >= begin_s
    )
    return Result(busy_s / (setting.machines * setting.window_s), waits_s)
