"""The grid of paper 001, section 5.2: machines that run one job each, and who hands them out.

Jobs take 30 to 60 minutes and come as a Poisson process that asks for a given part of all machines'
time. Whoever schedules knows what it was told: by tables that the machines exchange once a minute,
or by asking each machine in turn. What the paper leaves open is a named constant here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from iriai.sim.world.rng import Rng

HORIZON_S = 12 * 3600.0
FROM_S = 2 * 3600.0
"""Use is measured from here to the horizon."""
SHORTEST_S, LONGEST_S = 1800.0, 3600.0
EXCHANGE_S = 60.0
"""Between two exchanges of a machine; the paper's."""
WAY_LEAST_S, WAY_MOST_S = 0.05, 0.1
"""One way between two machines: round trips up to 200 ms, the paper's most. Assumed: uniform."""
FETCH_S = 2.0
"""Between two tables that a scheduling node fetches, each from a machine at random. Assumed: the
paper says that tables are fetched, not how often. With 2 s gossip and manager are equal at 1,000
machines, as in the paper; with 5 s gossip is 1 % behind there."""
MATCH_S = 20e-6
"""For each ad that is looked at. Assumed: the paper measured a matchmaker in Java and gives no
figure; this is what one `symmetricMatch` of HTCondor's library takes."""

Views = NDArray[np.int64]
"""By machine: twice the version of its ad, and 1 where it said that it is idle."""


@dataclass(frozen=True, slots=True)
class Job:
    """When it is handed in, and how long it runs."""

    at_s: float
    length_s: float


def arrivals(count: int, load: float, seed: int, horizon_s: float) -> list[Job]:
    """Jobs that ask for `load` times all the time that `count` machines have."""
    dice = Rng(seed, "jobs")
    between_s = (SHORTEST_S + LONGEST_S) / 2 / (count * load)
    jobs = []
    at_s = dice.exponential(between_s)
    while at_s < horizon_s:
        jobs.append(Job(at_s, dice.between(SHORTEST_S, LONGEST_S)))
        at_s += dice.exponential(between_s)
    return jobs


@dataclass
class Machines:
    """What really is: who runs something, and for how long anybody did."""

    count: int
    horizon_s: float
    from_s: float
    is_idle: NDArray[np.bool_] = field(init=False)
    version: NDArray[np.int64] = field(init=False)
    """Of each machine's ad: raised with each start and end."""
    busy_s: float = 0.0

    def __post_init__(self) -> None:
        self.is_idle = np.ones(self.count, dtype=np.bool_)
        self.version = np.ones(self.count, dtype=np.int64)

    def start(self, machine: int, now_s: float, length_s: float) -> None:
        """A job starts there."""
        self.is_idle[machine] = False
        self.version[machine] += 1
        until_s = min(now_s + length_s, self.horizon_s)
        self.busy_s += max(0.0, until_s - max(now_s, self.from_s))

    def end(self, machine: int) -> None:
        """Its job is over."""
        self.is_idle[machine] = True
        self.version[machine] += 1

    def ad(self, machine: int) -> int:
        """What it says of itself now."""
        return 2 * int(self.version[machine]) + int(self.is_idle[machine])

    @property
    def utilisation(self) -> float:
        """The part of all time in which machines ran jobs."""
        return self.busy_s / (self.count * (self.horizon_s - self.from_s))


class Tables(Protocol):
    """What each machine knows of all."""

    def exchange(self, machine: int, ad: int, now_s: float) -> None:
        """A machine refreshes its own ad and exchanges tables with one other at random."""
        ...

    def view(self, machine: int) -> Views:
        """What it knows."""
        ...


class ArrayTables:
    """Tables as rows of one array: for sizes at which the product's cannot be run."""

    def __init__(self, count: int, seed: int) -> None:
        self._known = np.zeros((count, count), dtype=np.int32)
        self._dice = Rng(seed, "partners")
        self._count = count

    def exchange(self, machine: int, ad: int, now_s: float) -> None:
        """See `Tables`; the newer of two ads stays in both."""
        known = self._known
        known[machine, machine] = ad
        other = (machine + 1 + self._dice.below(self._count - 1)) % self._count
        np.maximum(known[machine], known[other], out=known[machine])
        known[other] = known[machine]

    def view(self, machine: int) -> Views:
        """See `Tables`."""
        row: Views = self._known[machine].astype(np.int64)
        return row


class Scheduler:
    """One scheduling node: a queue, what it was told, and what it tried."""

    def __init__(self, grid: Grid, number: int) -> None:
        self.queue: deque[Job] = deque()
        self._grid = grid
        self._dice = Rng(grid.seed, f"scheduler/{number}")
        count = grid.machines.count
        self._view: Views = np.zeros(count, dtype=np.int64)
        self._tried: Views = np.zeros(count, dtype=np.int64)
        """By machine: the ad on whose word it was asked last. Only a newer one counts."""
        self._is_asking = False

    def told(self, view: Views) -> None:
        """It fetched a table: the newer ads of it count."""
        np.maximum(self._view, view, out=self._view)
        self.look()

    def look(self) -> None:
        """Match the first job in the queue, if there is one and nothing is under way."""
        if self._is_asking or not self.queue:
            return
        good = np.flatnonzero(((self._view & 1) == 1) & (self._view > self._tried))
        if not len(good):
            return
        machine = int(good[self._dice.below(len(good))])
        self._is_asking = True
        self._tried[machine] = self._view[machine]
        delay_s = MATCH_S * len(self._view) + self._grid.way_s()
        self._grid.after(delay_s, lambda: self._ask(machine))

    def _ask(self, machine: int) -> None:
        """The machine is asked, and has the last word."""
        grid = self._grid
        is_accepted = bool(grid.machines.is_idle[machine])
        grid.claims += 1
        grid.refused += not is_accepted
        if is_accepted:
            grid.start(machine, self.queue.popleft())
        grid.after(grid.way_s(), self._answered)

    def _answered(self) -> None:
        self._is_asking = False
        self.look()


class Grid:
    """Machines, jobs and time."""

    def __init__(self, count: int, load: float, seed: int, horizon_s: float = HORIZON_S) -> None:
        self.seed = seed
        self.now_s = 0.0
        self.claims = 0
        self.refused = 0
        self.machines = Machines(count, horizon_s, FROM_S * horizon_s / HORIZON_S)
        self._horizon_s = horizon_s
        self._jobs = arrivals(count, load, seed, horizon_s)
        self._ways = Rng(seed, "ways")
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._sequence = 0

    def way_s(self) -> float:
        """How long a message takes."""
        return self._ways.between(WAY_LEAST_S, WAY_MOST_S)

    def at(self, time_s: float, action: Callable[[], None]) -> None:
        """Have it done then."""
        self._sequence += 1
        heappush(self._events, (time_s, self._sequence, action))

    def after(self, delay_s: float, action: Callable[[], None]) -> None:
        """Have it done after a while."""
        self.at(self.now_s + delay_s, action)

    def start(self, machine: int, job: Job) -> None:
        """A job starts now."""
        self.machines.start(machine, self.now_s, job.length_s)
        self.after(job.length_s, lambda: self.machines.end(machine))

    def run(self, hand_in: Callable[[Job], None]) -> float:
        """Let all jobs come, each handed in by `hand_in`; the utilisation of all machines."""
        for job in self._jobs:
            self.at(job.at_s, lambda job=job: hand_in(job))  # type: ignore[misc]
        while self._events and self._events[0][0] < self._horizon_s:
            self.now_s, _, action = heappop(self._events)
            action()
        return self.machines.utilisation


def by_gossip(grid: Grid, tables: Tables, schedulers: int) -> float:
    """The paper's system: tables once a minute, jobs by turns to so many scheduling nodes."""
    machines = grid.machines
    phases = Rng(grid.seed, "phases")
    fetches = Rng(grid.seed, "fetches")
    nodes = [Scheduler(grid, number) for number in range(schedulers)]

    def exchange(machine: int) -> None:
        tables.exchange(machine, machines.ad(machine), grid.now_s)
        grid.after(EXCHANGE_S, lambda: exchange(machine))

    def fetch(node: Scheduler) -> None:
        source = fetches.below(machines.count)
        grid.after(grid.way_s() + grid.way_s(), lambda: node.told(tables.view(source)))
        grid.after(FETCH_S, lambda: fetch(node))

    for machine in range(machines.count):
        grid.at(phases.between(0.0, EXCHANGE_S), lambda m=machine: exchange(m))  # type: ignore[misc]
    for node in nodes:
        grid.at(phases.between(0.0, FETCH_S), lambda n=node: fetch(n))  # type: ignore[misc]
    turn = iter(range(1 << 60))

    def hand_in(job: Job) -> None:
        node = nodes[next(turn) % schedulers]
        node.queue.append(job)
        node.look()

    return grid.run(hand_in)


def by_manager(grid: Grid, cycle_s: float = 0.0) -> float:
    """A central manager after Condor: it collects every ad, then matches, and begins again.

    `cycle_s` 0: it asks one machine after the other. Else it is told of each end at once, and
    matches so often.
    """
    machines = grid.machines
    queue: deque[Job] = deque()

    def match(idle: list[int]) -> None:
        for machine in idle:
            if not queue:
                break
            job = queue.popleft()
            grid.after(grid.way_s(), lambda m=machine, j=job: grid.start(m, j))  # type: ignore[misc]

    def collect() -> None:
        if cycle_s:
            match(np.flatnonzero(machines.is_idle).tolist())
            grid.after(cycle_s, collect)
        else:
            ask(0, [])

    def ask(machine: int, idle: list[int]) -> None:
        if machine == machines.count:
            matches = min(len(queue), len(idle))
            match(idle)
            grid.after(max(0.2, MATCH_S * machines.count * matches), collect)
            return
        if machines.is_idle[machine]:
            idle.append(machine)
        grid.after(grid.way_s() + grid.way_s(), lambda: ask(machine + 1, idle))

    grid.at(0.0, collect)
    return grid.run(queue.append)


def by_oracle(grid: Grid) -> float:
    """First come first served without any delay: what nobody can beat."""
    machines = grid.machines
    queue: deque[Job] = deque()
    idle = deque(range(machines.count))

    def serve() -> None:
        while queue and idle:
            machine, job = idle.popleft(), queue.popleft()
            machines.start(machine, grid.now_s, job.length_s)
            grid.after(job.length_s, lambda m=machine: free(m))  # type: ignore[misc]

    def free(machine: int) -> None:
        machines.end(machine)
        idle.append(machine)
        serve()

    def hand_in(job: Job) -> None:
        queue.append(job)
        serve()

    return grid.run(hand_in)
