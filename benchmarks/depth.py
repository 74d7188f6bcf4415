"""How long a broker takes to decide what starts when a task ends, however much there is.

Each case is a busy installation of so many machines with so many single submissions queued, of 200
accounts and 10,000 different requirements. A task ends: from its machine's report to the broker
until the broker has said what starts, that is one sample. Then the rest of the turn, unmeasured:
the home starts what was matched, the machine reports that it runs, what was queued is handed in
again. A fifth of all submissions waits for others; those are at their homes and no broker hears of
them, so the broker's queue holds the other four fifths.

An installation is built once for each case; each run is a process of its own that goes on from
there, so all make the same decisions. Beside the time on the wall (`pass`) and the processor's
(`cpu`), medians of the runs, stands the quiet time: of each decision, the processor time in the run
in which it took least, close to what it takes on a machine that does nothing else.

The floor is what any such decision costs in this language, measured in the same runs: a task that
is drawn from one heap, a weighted draw among 200 accounts, a machine's room counted down and up.

One more figure: the longest turn when all machines report idle while everything waits, which is how
long any message waits then; beside it the time until all of them are busy.
"""

from __future__ import annotations

import argparse
import gc
import os
import pickle
import tempfile
import time
from bisect import bisect
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from heapq import heapify, heapreplace
from itertools import accumulate
from pathlib import Path
from random import Random
from resource import RUSAGE_SELF, getrusage
from typing import NamedTuple, TypeVar

from harness.report import Figure, finish, machine_facts, median, percentile, progress, ratio

from iriai.broker.core import Broker
from iriai.broker.state.state import BrokerSettings
from iriai.config.reader import Configuration
from iriai.config.sections import GroupSection
from iriai.daemon.loop.gc_tuning import keep_pauses_short
from iriai.model.ids import Account, AttemptId, JobId
from iriai.model.instant import Instant
from iriai.model.records import LedgerRow
from iriai.model.resources import Resources
from iriai.plugins.orders import order_named
from iriai.policy.draw.order import OrderSettings
from iriai.protocol.messages.effects import Effect, Part, Send, Wake, WakeAt
from iriai.protocol.messages.scheduling import Capability, Counted, Idle, Match, Running, Want

Result = TypeVar("Result")

MACHINES = (10, 1_000, 10_000)
QUEUED = (1_000, 100_000, 1_000_000)
ACCOUNTS = 200
GROUPS = 8
KINDS = 10_000
DEPENDENT_PART = 0.2
"""Of all submissions: not ready, so at their homes."""
WALL_S = 1_800_000_000.0
GIBIBYTE = 2**30
LARGEST = Resources(64, 256 * GIBIBYTE, 8)
"""Of the machines; a tenth of them have GPUs."""
LARGER = Resources(32, 128 * GIBIBYTE)
SMALLER = Resources(16, 64 * GIBIBYTE)
SEED = 1
WARM_UP_ENDS = 300
"""Before samples are taken: places are kept, queues have the heads that a busy room has."""
GAP_S = 0.05
"""Between two ends."""


@dataclass
class Node:
    """A simulated machine: what a node would tell."""

    name: str
    capacity: Resources
    version: int = 0
    slots: int = 0
    running: dict[AttemptId, Running] = field(default_factory=dict)

    def capabilities(self, count: int) -> tuple[Capability, ...]:
        """So many new ones."""
        self.slots += count
        first = self.slots - count
        return tuple(Capability(1, self.version, slot, slot) for slot in range(first, self.slots))

    def idle(
        self,
        capabilities: int,
        *,
        spent: tuple[Capability, ...] = (),
        began: tuple[Running, ...] = (),
        ended: tuple[AttemptId, ...] = (),
        whole: bool = False,
    ) -> Idle:
        """Its next report."""
        self.version += 1
        minted = self.capabilities(capabilities)
        fields = (minted, spent, began, ended, whole, None)
        return Idle(self.name, 1, self.version, self.capacity, *fields)


def capacity_of(number: int) -> Resources:
    """A tenth of the machines have GPUs, a third of the others are large."""
    if number % 10 == 0:
        return LARGEST
    return LARGER if number % 3 == 0 else SMALLER


def make_kinds(rng: Random) -> list[tuple[Resources, float]]:
    """Different requirements as people have them: mostly small, with a tail; and time limits."""
    kinds: dict[tuple[Resources, float], None] = {}
    while len(kinds) < KINDS:
        cpus = rng.choice((1, 1, 1, 1, 2, 2, 4, 4, 8, 8, 12, 16, 24, 32))
        gpus = rng.choice((0,) * 9 + (1, 2))
        memory = cpus * rng.choice((512, 1024, 1536, 2048, 3072, 4096)) * 2**20
        limit_s = 60.0 * rng.choice((5, 10, 15, 30, 45, 60, 90, 120, 180, 240, 360, 480, 720, 1440))
        kinds[Resources(cpus, memory, gpus), limit_s + 60.0 * rng.randrange(60)] = None
    return list(kinds)


class Installation:
    """A broker and what is around it."""

    def __init__(self, machines: int, queued: int, seed: int, *, is_busy: bool = True) -> None:
        """If it is not busy, no machine has reported yet."""
        self.rng = Random(seed)
        self.accounts = [
            Account(f"group{number % GROUPS}", f"user{number}") for number in range(ACCOUNTS)
        ]
        groups = {f"group{number}": GroupSection(1.0 + number % 3) for number in range(GROUPS)}
        configuration = Configuration(groups=groups)
        order = configuration.order
        named = order_named(order.name, OrderSettings(order.usage_floor_s))
        self.broker = Broker(BrokerSettings(configuration, named), Random(seed))
        self.kinds = make_kinds(self.rng)
        self.now_s = 0.0
        self.number = 0
        self.wants: dict[int, Want] = {}
        self.nodes = [Node(f"m{number:05d}", capacity_of(number)) for number in range(machines)]
        self.by_name = {node.name: node for node in self.nodes}
        self.counters: dict[tuple[str, Account], LedgerRow] = {}
        self.ready = round(queued * (1 - DEPENDENT_PART))
        if is_busy:
            self._fill()
        self._queue()

    @property
    def now(self) -> Instant:
        """This moment."""
        return Instant(self.now_s, WALL_S + self.now_s)

    def want(self) -> Want:
        """One more submission."""
        self.number += 1
        resources, limit_s = self.rng.choice(self.kinds)
        job = JobId("front", self.number)
        account = self.rng.choice(self.accounts)
        want = Want(job, account, resources, limit_s, 1.0, 0.0, 1, grace_s=10.0)
        self.wants[self.number] = want
        return want

    def running(self, want: Want, capability: Capability | None, ran_s: float = 0.0) -> Running:
        """A want as the claim that it became."""
        attempt = AttemptId("front", want.job.number, 0, 1)
        assert want.limit_s is not None
        ends_in_s = want.limit_s + want.grace_s + 5.0 - ran_s
        fields = (want.limit_s, ends_in_s, 0.0, 1.0, capability)
        return Running(attempt, want.account, want.resources, *fields)

    def _fill(self) -> None:
        """Every machine runs as much as fits."""
        for node in self.nodes:
            free = node.capacity
            began = []
            for _ in range(200):
                want = self.want()
                del self.wants[self.number]
                if not want.resources.fits_in(free):
                    continue
                free = free.minus(want.resources)
                assert want.limit_s is not None
                ran_s = self.rng.random() * want.limit_s
                running = self.running(want, None, ran_s)
                node.running[running.attempt] = running
                began.append(running)
                if free.cpus == 0:
                    break
            idle = node.idle(free.cpus, began=tuple(began), whole=True)
            self.broker.take(idle, self.now)
            rows = tuple(self.charge(node, running) for running in began)
            self.broker.take(Counted(node.name, rows, ()), self.now)
        self.broker.end_turn(self.now)

    def charge(self, node: Node, running: Running) -> LedgerRow:
        """The machine's counter of an account, with one run more."""
        key = (node.name, running.account)
        old = self.counters.get(
            key, LedgerRow(running.account, 0.0, WALL_S // 604_800 * 604_800, 0, 0.0)
        )
        ran_s = 600.0
        used_s = running.resources.cpus * ran_s
        row = LedgerRow(
            running.account,
            old.counter + used_s,
            old.epoch_wall_s,
            old.runs + 1,
            old.run_s + ran_s if old.runs < 8 else old.run_s,
        )
        self.counters[key] = row
        return row

    def _queue(self) -> None:
        wants = [self.want() for _ in range(self.ready)]
        for number, want in enumerate(wants):
            self.broker.take(want, self.now)
            if number % 1_000 == 0:
                self.settle_down(self.turns())
        self.settle_down(self.turns())

    def turns(self) -> list[Effect]:
        """The broker decides, in as many turns as it asks for."""
        now = self.now
        effects = self.broker.end_turn(now)
        while effects and effects[-1] == WakeAt(Part.BROKER, now.steady_s):
            self.broker.take(Wake(Part.BROKER), now)
            effects[-1:] = self.broker.end_turn(now)
        return effects

    def settle_down(self, effects: list[Effect]) -> None:
        """What was matched runs, and what was queued is handed in again, until nothing starts."""
        while messages := self.answers(effects):
            for message in messages:
                self.broker.take(message, self.now)
            effects = self.turns()

    def answers(self, effects: list[Effect]) -> list[Idle | Want]:
        """What nodes and homes say to that."""
        messages: list[Idle | Want] = []
        for effect in effects:
            if isinstance(effect, Send) and isinstance(effect.message, Match):
                match = effect.message
                [(machine, capability, _)] = match.seats
                node = self.by_name[machine]
                want = self.wants.pop(match.job.number)
                running = self.running(want, capability)
                node.running[running.attempt] = running
                messages.append(node.idle(0, spent=(capability,), began=(running,)))
                messages.append(self.want())
        return messages

    def an_end(self) -> tuple[Counted, Idle]:
        """One of all running tasks ends."""
        node = self.rng.choice(self.nodes)
        while not node.running:
            node = self.rng.choice(self.nodes)
        attempt = self.rng.choice(list(node.running))
        running = node.running.pop(attempt)
        row = self.charge(node, running)
        idle = node.idle(running.resources.cpus, ended=(attempt,))
        return Counted(node.name, (row,), ()), idle

    def sample(self) -> tuple[float, float, int]:
        """One end: microseconds, those of processor time, and how many tasks the broker started."""
        self.now_s += GAP_S
        counted, idle = self.an_end()
        now, broker = self.now, self.broker
        gc.disable()  # for a turn, as the daemon does
        began, cpu_began = time.perf_counter(), time.thread_time()
        broker.take(counted, now)
        broker.take(idle, now)
        effects = self.turns()
        cpu_us = 1e6 * (time.thread_time() - cpu_began)
        took_us = 1e6 * (time.perf_counter() - began)
        gc.enable()
        matches = sum(1 for e in effects if isinstance(e, Send) and isinstance(e.message, Match))
        self.settle_down(effects)
        return took_us, cpu_us, matches


class Floor:
    """The least that a decision needs, with everything else left out."""

    def __init__(self, machines: int, queued: int, seed: int) -> None:
        self.rng = Random(seed)
        self.heaps: list[list[tuple[float, int]]] = [[] for _ in range(ACCOUNTS)]
        for number in range(queued):
            self.heaps[number % ACCOUNTS].append((self.rng.random(), number))
        for heap in self.heaps:
            heapify(heap)
        self.used = [1.0 + self.rng.random() for _ in range(ACCOUNTS)]
        self.free = dict.fromkeys((f"m{number:05d}" for number in range(machines)), 0)
        self.names = list(self.free)
        self.waiting = deque(range(queued, 2 * queued))

    def sample(self) -> float:
        """One end and one start; microseconds."""
        name, number = self.rng.choice(self.names), self.rng.random()
        began = time.thread_time()
        self.free[name] += 1
        bounds = list(accumulate(1.0 / used for used in self.used))
        account = bisect(bounds, self.rng.random() * bounds[-1], 0, ACCOUNTS - 1)
        heapreplace(self.heaps[account], (number, 0))
        self.used[account] += 1.0
        self.free[name] -= 1
        return 1e6 * (time.thread_time() - began)


class Run(NamedTuple):
    """One run of one case: a sample for each end."""

    took_us: list[float]
    cpu_us: list[float]
    floor_us: list[float]
    starts_per_end: float


def in_a_process(work: Callable[[], Result]) -> Result:
    """What `work` gives, done in a copy of this process, which ends with it."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        with os.fdopen(writer, "wb") as stream:
            pickle.dump(work(), stream)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        content = stream.read()
    os.waitpid(child, 0)
    result: Result = pickle.loads(content)
    return result


def touch_all() -> None:
    """Have a copied process own its memory: first uses of pages are no part of a pass."""
    gc.unfreeze()
    for each in gc.get_objects():
        gc.get_referents(each)
    gc.freeze()


def measure(installation: Installation, queued: int, ends: int) -> Run:
    """One run of one case; each run decides the same."""
    touch_all()
    for _ in range(WARM_UP_ENDS):
        installation.sample()
    gc.collect()
    gc.freeze()
    took, on_cpu, started = [], [], 0
    for _ in range(ends):
        took_us, cpu_us, matches = installation.sample()
        took.append(took_us)
        on_cpu.append(cpu_us)
        started += matches
    floor = Floor(len(installation.nodes), queued, SEED)
    return Run(took, on_cpu, [floor.sample() for _ in range(ends)], started / ends)


def measure_case(machines: int, queued: int, runs: int, ends: int) -> dict[str, Figure]:
    """Medians over several runs; and the quiet time of each decision, the least it took in any."""
    began = time.perf_counter()
    installation = Installation(machines, queued, SEED)
    built_s = time.perf_counter() - began
    gc.collect()
    gc.freeze()
    memory_bytes = 1024 * getrusage(RUSAGE_SELF).ru_maxrss
    results = []
    for run in range(runs):
        progress(f"{machines} machines, {queued} queued: run {run + 1} of {runs}")
        results.append(in_a_process(lambda: measure(installation, queued, ends)))
    quiet = [min(samples) for samples in zip(*[each.cpu_us for each in results], strict=True)]
    floor = [min(samples) for samples in zip(*[each.floor_us for each in results], strict=True)]
    return {
        "pass_p50_us": median([percentile(each.took_us, 50) for each in results]),
        "pass_p99_us": median([percentile(each.took_us, 99) for each in results]),
        "cpu_p50_us": median([percentile(each.cpu_us, 50) for each in results]),
        "cpu_p99_us": median([percentile(each.cpu_us, 99) for each in results]),
        "quiet_p50_us": round(percentile(quiet, 50), 1),
        "quiet_p99_us": round(percentile(quiet, 99), 1),
        "quiet_max_us": round(max(quiet), 1),
        "floor_p50_us": round(percentile(floor, 50), 1),
        "starts_per_end": median([each.starts_per_end for each in results], 2),
        "peak_memory_bytes": memory_bytes,
        "built_s": round(built_s, 1),
    }


def measure_burst(machines: int, queued: int) -> dict[str, Figure]:
    """All machines come at once to a queue that is full: how long each turn takes."""
    keep_pauses_short()  # as the daemon does
    installation = Installation(machines, queued, SEED, is_busy=False)
    broker, now = installation.broker, installation.now
    for node in installation.nodes:
        broker.take(node.idle(node.capacity.cpus, whole=True), now)
    turns_ms, starts = [], 0
    is_over = False
    while not is_over:
        began = time.thread_time()
        gc.disable()
        effects = broker.end_turn(now)
        gc.enable()  # as the daemon does: the collector looks between turns,
        deque[int]()  # when the next object is made
        turns_ms.append(1e3 * (time.thread_time() - began))
        starts += sum(1 for e in effects if isinstance(e, Send) and isinstance(e.message, Match))
        is_over = not effects or effects[-1] != WakeAt(Part.BROKER, now.steady_s)
        broker.take(Wake(Part.BROKER), now)
    return {
        "machines": machines,
        "queued": queued,
        "starts": starts,
        "turns": len(turns_ms),
        "longest_turn_cpu_ms": round(max(turns_ms), 1),
        "all_turns_cpu_ms": round(sum(turns_ms), 1),
    }


def main() -> None:
    """Measure all cases, or one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5, help="medians of so many runs")
    parser.add_argument("--ends", type=int, default=2_000, help="samples of each run")
    parser.add_argument("--machines", type=int, help="one case: so many machines")
    parser.add_argument("--queued", type=int, help="one case: so many submissions")
    parser.add_argument("--quick", action="store_true", help="one small run, as a check")
    parser.add_argument("--no-peers", action="store_true", help="there are none; for `make bench`")
    given = parser.parse_args()
    if given.quick:
        given.runs, given.ends, given.machines, given.queued = 1, 20, 10, 1_000
    began = time.perf_counter()
    cases = {}
    for machines in [given.machines] if given.machines else MACHINES:
        for queued in [given.queued] if given.queued else QUEUED:
            name = f"{machines}_machines_{queued}_queued"
            case = partial(measure_case, machines, queued, given.runs, given.ends)
            cases[name] = in_a_process(case)
    burst = partial(measure_burst, given.machines or MACHINES[-1], given.queued or QUEUED[1])
    result: dict[str, object] = {
        "cases": cases,
        "accounts": ACCOUNTS,
        "kinds": KINDS,
        "dependent_part": DEPENDENT_PART,
        "runs": given.runs,
        "ends": given.ends,
        "burst": in_a_process(burst),
        "took_s": round(time.perf_counter() - began, 1),
        "machine": machine_facts(Path(tempfile.gettempdir())),
    }
    least, most = (cases.get(f"10000_machines_{queued}_queued") for queued in (1_000, 1_000_000))
    if least and most:
        result["pass_p50_us"] = most["pass_p50_us"]
        result["pass_p99_us"] = most["pass_p99_us"]
        result["quiet_p50_us"] = most["quiet_p50_us"]
        result["quiet_p99_us"] = most["quiet_p99_us"]
        result["million_to_thousand_p50"] = ratio(most["quiet_p50_us"], least["quiet_p50_us"])
        result["million_to_thousand_p99"] = ratio(most["quiet_p99_us"], least["quiet_p99_us"])
    finish(result)


if __name__ == "__main__":
    main()
