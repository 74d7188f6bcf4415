"""One machine in virtual time: the product's cores, a pretended launcher and a store in memory."""

from __future__ import annotations

from collections import deque
from math import inf
from random import Random

from iriai.broker.core import Broker
from iriai.broker.state import BrokerSettings
from iriai.home.core import Home
from iriai.home.job import JobState
from iriai.machine.checks import check_stored
from iriai.machine.core import Machine, Turn
from iriai.machine.watch import Watch
from iriai.model.account import Account
from iriai.model.configuration import Configuration
from iriai.model.ids import AttemptId, JobId
from iriai.model.instant import Instant
from iriai.model.job import JobSpec
from iriai.model.reason import Rule
from iriai.model.resources import Resources
from iriai.model.state import TaskState
from iriai.node.core import Node, NodeSettings
from iriai.policy.fairshare import ChargeRule
from iriai.policy.order import OrderSettings
from iriai.policy.registry import order_named
from iriai.protocol.effects import (
    Effect,
    ForgetAttempt,
    JobSettled,
    LaunchAttempt,
    LauncherEvent,
    LauncherLost,
    Part,
    SampleAttempts,
    TerminateAttempt,
    Wake,
    WakeAt,
)
from tests.support.memory_store import MemoryStore
from tests.support.pretended_launcher import SUCCESS, PretendedLauncher, Work

HOME = "ume"
WALL_S = 1_800_000_000.0
"""The wall clock at second 0 of the steady one."""
TURNS_MAX = 200_000
"""More turns than any story has: time does not pass any more."""


class VirtualMachine:
    """Drives a `Machine`; seconds are those of `now_s`, which begins at 1000."""

    def __init__(
        self,
        cpus: int = 2,
        *,
        memory_bytes: int = 64 << 30,
        gpus: int = 0,
        configuration: Configuration | None = None,
        seed: int = 1,
        is_checked: bool = True,
    ) -> None:
        self.configuration = configuration or Configuration()
        self.capacity = Resources(cpus, memory_bytes, gpus)
        self.is_checked = is_checked
        self.now_s = 1000.0
        self.store = MemoryStore()
        self.launcher = PretendedLauncher(WALL_S)
        self.settled: list[int] = []
        """Jobs that whoever waits was told of."""
        self.watch = Watch()
        self._rng = Random(seed)
        self._alarms: dict[Part, float] = {}
        self._events: deque[LauncherEvent | Wake] = deque()
        self.machine: Machine
        self.restart()

    @property
    def now(self) -> Instant:
        """The instant that cores are told."""
        return Instant(self.now_s, WALL_S + self.now_s, "test")

    # --- what people do --------------------------------------------------------------------------

    def submit(
        self,
        user: str = "ann",
        *,
        group: str = "lab",
        tasks: int = 1,
        cpus: int = 1,
        memory_bytes: int = 0,
        gpus: int = 0,
        limit_s: float | None = None,
        work: Work | None = None,
        run_s: float | None = None,
        **spec,
    ) -> JobId:
        """Hand a job in; it is seen to in the next turn."""
        if tasks > 1:
            spec |= {"array": ((1, tasks, 1),), "is_array": True}
        job = self.machine.submit(
            JobSpec(
                Account(group, user),
                user,
                "job",
                ("true",),
                "/",
                Resources(cpus, memory_bytes, gpus),
                time_limit_s=limit_s,
                **spec,
            ),
            (),
            self.now,
        )
        if work is not None or run_s is not None:
            self.launcher.works[job.number] = work or Work(run_s)
        return job

    def cancel(self, job: JobId, *indices: int) -> int:
        """Cancel tasks of a job, all where none is named."""
        return self.machine.home.cancel(job.number, indices, "test")

    # --- what happens to machines ----------------------------------------------------------------

    def restart(self, configuration: Configuration | None = None) -> None:
        """A daemon comes up from the store; an earlier one is gone with all that it had in mind."""
        self.configuration = configuration or self.configuration
        self.machine = self._from_store()
        self._alarms.clear()
        self._events.clear()
        self.machine.begin(self.now)
        self.turn()
        if self.launcher.is_up:
            self._events.extend(self.launcher.welcome())
            self.turn()

    def crash(self, *, is_durable: bool) -> None:
        """The daemon dies within a turn, before its records are kept or just after, and is back."""
        turn = self._settle()
        if is_durable:
            self.store.write(turn.records)
        self.restart()

    def _from_store(self) -> Machine:
        state = self.store.load()
        order = self.configuration.order
        settings = NodeSettings(
            HOME,
            self.capacity,
            ChargeRule.of(order),
            order.half_life_s,
            end_slack_s=self.configuration.jobs.end_slack_s,
        )
        incarnation = state.incarnation + 1
        node = Node(settings, self._rng, incarnation, state.claims, state.ledger, self.now)
        order_settings = OrderSettings(order.usage_floor_s)
        broker = Broker(
            BrokerSettings(self.configuration, order_named(order.name, order_settings)), self._rng
        )
        return Machine(HOME, node, Home(HOME, state.next_number, state.jobs), broker)

    def kill_launcher(self) -> None:
        """The launcher dies; what it ran dies with it, or when a new one finds it."""
        self.launcher.die(self.now_s)
        self._events.append(LauncherLost())
        self.turn()

    def start_launcher(self) -> None:
        """A new launcher comes up, with the journal of the old one."""
        self.launcher.is_up = True
        self._events.extend(self.launcher.welcome())
        self.turn()

    # --- time ------------------------------------------------------------------------------------

    def turn(self) -> None:
        """What has arrived is handled, its records are kept, its effects performed."""
        turn = self._settle()
        self.store.write(turn.records)
        self._perform(turn)
        if self.is_checked:
            self.machine.check(self.now)
            self.watch.look(self.machine, self.now)
            check_stored(self.machine.node, self.machine.home, self.store.load())

    def _settle(self) -> Turn:
        while self._events:
            self.machine.handle(self._events.popleft(), self.now)
        return self.machine.settle(self.now)

    def _perform(self, turn: Turn) -> None:
        for effect in turn.outward:
            match effect:
                case WakeAt(part, steady_s):
                    self._alarms[part] = steady_s
                case JobSettled(number):
                    self.settled.append(number)
                case _:
                    self._order(effect)

    def _order(self, effect: Effect) -> None:
        launcher = self.launcher
        if not launcher.is_up:
            return
        match effect:
            case LaunchAttempt(attempt, spec):
                self._events.extend(launcher.launch(attempt, spec, self.now_s))
            case TerminateAttempt(attempt, cause, grace_s):
                launcher.terminate(attempt, cause, grace_s, self.now_s)
            case ForgetAttempt(attempt):
                launcher.forget(attempt)
            case SampleAttempts():
                self._events.append(launcher.sample(self.now_s))

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        until_s = self.now_s + seconds
        self._run_until(until_s)
        self.now_s = until_s

    def finish(self) -> None:
        """Let time pass until no job is left, or nothing can happen any more."""
        self._run_until(inf)

    def _run_until(self, until_s: float) -> None:
        self.turn()
        for _ in range(TURNS_MAX):
            if until_s == inf and not self.machine.home.jobs and not self._events:
                return
            next_s = self.now_s if self._events else self._next_s()
            if next_s > until_s or next_s == inf:
                return
            self._step(next_s)
        raise AssertionError("this story has no end")

    def _next_s(self) -> float:
        """When something happens next; infinite where nothing will but alarms of idle parts."""
        end_s = self.launcher.next_end_s()
        return min([*self._alarms.values(), inf if end_s is None else end_s])

    def _step(self, next_s: float) -> None:
        self.now_s = max(self.now_s, next_s)
        ends = self.launcher.ends_until(self.now_s)
        self._events.extend(ends)
        for part, due_s in list(self._alarms.items()):
            if due_s <= self.now_s:
                del self._alarms[part]
                self._events.append(Wake(part))
        self.turn()

    # --- what a story looks at -------------------------------------------------------------------

    def job(self, job: JobId) -> JobState:
        """A job that has not finished."""
        return self.machine.home.job(job.number)

    def state(self, job: JobId, index: int = 0) -> TaskState:
        """Where a task is."""
        if job.number not in self.machine.home.jobs:
            assert job.number in self.store.finished
            return TaskState.FINISHED
        return self.job(job).task_state(index)

    def cause(self, job: JobId) -> str:
        """How a finished job ended."""
        return self.store.finished[job.number].cause

    def running(self) -> list[JobId]:
        """The job of each attempt that runs, in the order in which they started."""
        return [JobId(a.home, a.number) for a in self.launcher.running]

    def starts(self, job: JobId) -> list[AttemptId]:
        """Every start of a task of `job`."""
        return [a for a in self.launcher.starts if a.number == job.number]

    def why(self, job: JobId) -> list[Rule]:
        """The rules that keep a job waiting."""
        return [reason.rule for reason in self.machine.explain(job.number, self.now)]


__all__ = ["HOME", "SUCCESS", "WALL_S", "VirtualMachine", "Work"]
