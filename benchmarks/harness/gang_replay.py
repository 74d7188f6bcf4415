"""Replay of jobs that may stand or take turns: how fast each goes follows from its turn.

The broker's own state and passes decide, without messages, as in `iriai.sim.workload.replay`; here
are only time and speeds. A task that runs in two of three slices does two thirds of a second of its
work in a second; one that stands does none. At one instant all ends come first, then submissions,
then what rises by its age, then one pass.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import inf
from random import Random
from typing import NamedTuple

from iriai.broker.machines.machine_view import ClaimKey, MachineView
from iriai.broker.scheduling.cycles import cycles
from iriai.broker.scheduling.scheduling_pass import SchedulingPass
from iriai.broker.scheduling.task_starts import Decision
from iriai.broker.state.contention import DecisionRng
from iriai.broker.state.preemptible_task import PreemptibleTask, Standing
from iriai.broker.state.state import BrokerSettings, BrokerState, MatchedSeat
from iriai.broker.usage.usage import UsageAccounts
from iriai.config.reader import Configuration
from iriai.model.ids import JobId
from iriai.model.instant import Instant
from iriai.model.ranks import ONE, RankShape
from iriai.model.resources import Resources
from iriai.plugins.orders import order_named
from iriai.policy.accounting.decay import ChargeRule
from iriai.policy.accounting.decay_rule import decay_of
from iriai.policy.draw.order import OrderSettings
from iriai.policy.placement.calendar import longest_stay_s
from iriai.protocol.messages.scheduling import Want
from iriai.sim.workload.log import LogJob
from iriai.sim.workload.metrics import SLOWDOWN_RUN_S_MIN

HOME = "log"
WALL_S = 1_800_000_000.0


class TurnJob(NamedTuple):
    """A job of a log, with what each of its ranks needs of memory, and its queue."""

    job: LogJob
    memory_bytes: int
    queue: int = 0

    @property
    def want(self) -> Want:
        """What its home asks for."""
        job, width = self.job, self.job.width
        id_, need = JobId(HOME, job.number), Resources(1, self.memory_bytes)
        shape = RankShape(width, width) if width > 1 else ONE
        queue = self.queue
        return Want(id_, job.account, need, job.estimate_s, 1.0, 0.0, 1, shape=shape, queue=queue)


class TurnRecord(NamedTuple):
    """A job that is over; times in seconds since the log began."""

    turn_job: TurnJob
    start_s: float
    end_s: float
    stood_s: float
    """The longest time for which it stood at once."""

    @property
    def wait_s(self) -> float:
        """Seconds from the submission to the first start."""
        return self.start_s - self.turn_job.job.submit_s

    @property
    def response_s(self) -> float:
        """Seconds from the submission to the end."""
        return self.end_s - self.turn_job.job.submit_s

    @property
    def bounded_slowdown(self) -> float:
        """Return the response over the run time that it has alone, at least 1."""
        return max(1.0, self.response_s / max(self.turn_job.job.run_s, SLOWDOWN_RUN_S_MIN))


@dataclass(slots=True, eq=False)
class TurningTask:
    """A task that has started: how much of it is left, and how fast that becomes less."""

    turn_job: TurnJob
    start_s: float
    seats: tuple[MatchedSeat, ...]
    left_s: float
    since_s: float
    """When `left_s` was so much."""
    rate: float = 1.0
    version: int = 0
    """Of its predicted end: others are in the heap, too."""
    stands_since_s: float = inf
    stood_s: float = 0.0

    def set_rate(self, rate: float, now_s: float) -> None:
        """Go on at another speed."""
        self.left_s = max(0.0, self.left_s - self.rate * (now_s - self.since_s))
        self.rate, self.since_s = rate, now_s
        self.version += 1
        if not rate:
            self.stands_since_s = now_s
        elif self.stands_since_s < inf:
            self.stood_s = max(self.stood_s, now_s - self.stands_since_s)
            self.stands_since_s = inf

    @property
    def end_s(self) -> float:
        """Return when it ends if its speed stays; infinite: never."""
        return self.since_s + self.left_s / self.rate if self.rate else inf


@dataclass
class MachineTime:
    """Seconds of machines: how long any of its tasks ran, and more rows than one were in use."""

    used_s: float = 0.0
    """Of processors, by tasks in their turn."""
    used_cpus: float = 0.0
    """In use now, in the mean of a cycle."""
    busy_s: float = 0.0
    shared_s: float = 0.0
    rows: dict[str, int] = field(default_factory=dict)
    """The rows in use of each machine that is busy."""
    _sharing: int = 0
    _until_s: float = 0.0

    def pass_to(self, now_s: float) -> None:
        """Let time pass with the machines as they are."""
        elapsed_s, self._until_s = now_s - self._until_s, now_s
        self.used_s += elapsed_s * self.used_cpus
        self.busy_s += elapsed_s * len(self.rows)
        self.shared_s += elapsed_s * self._sharing

    def set_rows(self, machine: str, rows: int) -> None:
        """Note the rows in use of a machine; 0: it is idle."""
        self._sharing += (rows > 1) - (self.rows.pop(machine, 0) > 1)
        if rows:
            self.rows[machine] = rows


class GangReplay:
    """Machines, jobs, and what became of them: `records` as they end."""

    def __init__(
        self,
        machines: Iterable[Resources],
        configuration: Configuration,
        jobs: Sequence[TurnJob],
        *,
        seed: int = 1,
        is_checked: bool = False,
    ) -> None:
        """`jobs` are in the order in which they come."""
        order = configuration.order
        named = order_named(order.name, OrderSettings(order.usage_floor_s))
        usage = UsageAccounts(decay_of(order), ChargeRule.of(order))
        self.state = BrokerState(BrokerSettings(configuration, named), usage)
        self.records: list[TurnRecord] = []
        self.took_ms: list[float] = []
        """Processor time of the pass after each event."""
        self.time = MachineTime()
        self._rng = DecisionRng(Random(seed))
        self._views = [
            MachineView(f"machine-{number}", capacity, mints=False)
            for number, capacity in enumerate(machines)
        ]
        for view in self._views:
            self.state.add_machine(view)
        self._jobs = jobs
        self._has_levels = any(each.queue for each in jobs)
        self._is_checked = is_checked
        self._waiting: dict[int, TurnJob] = {}
        self._running: dict[int, TurningTask] = {}
        self._of_key: dict[ClaimKey, TurningTask] = {}
        self._counts: dict[str, int] = {}
        """Tasks by machine, those that stand too."""
        self._ends: list[tuple[float, int, int]] = []
        self._last_start_s = self._used_until_start_s = 0.0

    def run(self, until_s: float = inf) -> None:
        """Go on until all is over, or until that second."""
        gc.collect()
        gc.freeze()  # as the daemon does, once it is up
        place = 0
        while (now_s := self._next_s(place)) < until_s:
            self.time.pass_to(now_s)
            changed = self._end_what_is_over(now_s)
            while place < len(self._jobs) and self._jobs[place].job.submit_s <= now_s:
                self._waiting[self._jobs[place].job.number] = self._jobs[place]
                self.state.put(self._jobs[place].want, now_s)
                place += 1
            changed |= self._decide(now_s)
            self._count_rows(changed)
            if self._is_checked:
                self.check()
        if until_s < inf:
            self.time.pass_to(until_s)

    @property
    def utilisation(self) -> float:
        """Return how much of all processors was used until the last task had started."""
        cpus = sum(view.calendar.capacity.cpus for view in self._views)
        first_s = self._jobs[0].job.submit_s
        return self._used_until_start_s / (cpus * (self._last_start_s - first_s))

    def unfinished(self, until_s: float) -> Iterator[TurnRecord]:
        """Yield what is not over then, as if all of it started or ended at that moment."""
        for task in self._running.values():
            stood_s = max(task.stood_s, until_s - task.stands_since_s)
            yield TurnRecord(task.turn_job, task.start_s, until_s, stood_s)
        for turn_job in self._waiting.values():
            yield TurnRecord(turn_job, until_s, until_s, 0.0)

    def _next_s(self, place: int) -> float:
        """Return when something happens next."""
        ends = self._ends
        while ends and not self._is_due(*ends[0][1:]):
            heappop(ends)
        at_s = ends[0][0] if ends else inf
        if place < len(self._jobs):
            at_s = min(at_s, self._jobs[place].job.submit_s)
        if self.state.queues.lower:
            at_s = min(at_s, self.state.queues.ageing.next_s)
        if self._has_levels and self.state.preemptible.tasks:
            at_s = min(at_s, self.state.preemptible.next_s)
        return at_s

    def _is_due(self, number: int, version: int) -> bool:
        task = self._running.get(number)
        return task is not None and task.version == version

    def _end_what_is_over(self, now_s: float) -> dict[str, None]:
        """End the tasks that are due; return their machines."""
        changed: dict[str, None] = {}
        ends = self._ends
        while ends and ends[0][0] <= now_s:
            _, number, version = heappop(ends)
            if not self._is_due(number, version):
                continue
            task = self._running.pop(number)
            self.records.append(TurnRecord(task.turn_job, task.start_s, now_s, task.stood_s))
            self.time.used_cpus -= task.rate * task.turn_job.job.width
            for view, _, key in task.seats:
                self.state.end(view, key)
                del self._of_key[key]
                self._counts[view.name] -= 1
                changed[view.name] = None
        return changed

    # --- decisions -------------------------------------------------------------------------------

    def _decide(self, now_s: float) -> dict[str, None]:
        """Run the pass that the broker runs after an event; return machines with other turns."""
        preemptible = self.state.preemptible
        gc.disable()  # for a turn, as the daemon does
        began = time.thread_time()
        decisions = self._pass(now_s)
        self.took_ms.append(1e3 * (time.thread_time() - began))
        gc.enable()
        for decision in decisions:
            self._begin(decision, now_s)
        changed = dict.fromkeys(preemptible.to_tell)
        cycles(self.state)  # there are no machines that could be told
        for name in changed:
            for task in preemptible.by_machine.get(name, {}).values():
                self._turned(task, now_s)
        for _, seats in decisions:
            changed.update((view.name, None) for view, _, _ in seats)
        return changed

    def _pass(self, now_s: float) -> list[Decision]:
        state = self.state
        if state.queues.lower:
            state.queues.age(now_s)
        state.preemptible.settle_machines()
        if state.preemptible.modes:
            state.preemptible.age(now_s)
        decisions: list[Decision] = []
        if state.may_start_something:
            decisions = SchedulingPass(state, self._rng, Instant(now_s, WALL_S + now_s)).run()[0]
        state.preemptible.settle_machines()
        return decisions

    def _begin(self, decision: Decision, now_s: float) -> None:
        turn_job = self._waiting.pop(decision.entry.want.job.number)
        job = turn_job.job
        task = TurningTask(turn_job, now_s, decision.seats, job.run_s, now_s)
        self._running[job.number] = task
        self.time.used_cpus += job.width
        self._last_start_s, self._used_until_start_s = now_s, self.time.used_s
        for view, _, key in task.seats:
            self._of_key[key] = task
            self._counts[view.name] = self._counts.get(view.name, 0) + 1
        heappush(self._ends, (task.end_s, job.number, task.version))

    def _turned(self, known: PreemptibleTask, now_s: float) -> None:
        """Let a task go on as fast as its turn says."""
        task = self._of_key[next(iter(known.seats))]
        stands = known.standing is not Standing.RUNS
        rate = 0.0 if stands else known.turn.mask.bit_count() / known.turn.rows
        if rate == task.rate:
            return
        if not rate or not task.rate:
            parts = self.state.preemptible.rows.rows_max if known.is_gang else 1
            self._report_end(task, now_s, parts if rate else None)
        self.time.used_cpus += (rate - task.rate) * task.turn_job.job.width
        task.set_rate(rate, now_s)
        if rate:
            heappush(self._ends, (task.end_s, task.turn_job.job.number, task.version))

    def _report_end(self, task: TurningTask, now_s: float, parts: int | None) -> None:
        """Say when the claims of a task end, as their machines do; None: it stands, so open."""
        job = task.turn_job.job
        left_s = job.estimate_s - job.run_s + task.left_s
        stay_s = None if parts is None else longest_stay_s(left_s, 0.0, 0.0, parts=parts)
        for view, _, key in task.seats:
            view.calendar.change(key, view.calendar.held_by(key), now_s, stay_s)
            self.state.index.changed(view)

    # --- what is so ------------------------------------------------------------------------------

    def _count_rows(self, machines: Iterable[str]) -> None:
        preemptible = self.state.preemptible
        for name in machines:
            count = self._counts.get(name, 0)
            if count and name in preemptible.by_machine:
                rows = len(preemptible.rows.loads(name))
                known = preemptible.by_machine[name].values()
                stand = sum(task.standing is not Standing.RUNS for task in known)
                self.time.set_rows(name, max(rows, int(count > stand)))
            else:
                self.time.set_rows(name, int(count > 0))

    def check(self) -> None:
        """Raise where a row of a machine has more cpus, or all of them more memory, than it has."""
        self.state.preemptible.check()
        for view in self._views:
            tasks = self.state.preemptible.by_machine.get(view.name, {})
            running = {key: each for key, each in tasks.items() if each.standing is Standing.RUNS}
            others = sum(
                view.calendar.held_by(key).cpus for key in view.calendar if key not in tasks
            )
            rows = max((each.turn.rows for each in running.values()), default=1)
            for row in range(rows):
                cpus = others + sum(
                    each.seats[key].resources.cpus
                    for key, each in running.items()
                    if each.turn.needed >> row & 1
                )
                assert cpus <= view.calendar.capacity.cpus, f"{view.name} runs {cpus} in row {row}"
            memory_bytes = sum(view.calendar.held_by(key).memory_bytes for key in view.calendar)
            assert memory_bytes <= view.calendar.capacity.memory_bytes, f"{view.name}: memory"
