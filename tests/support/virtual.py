"""One machine in virtual time: the simulator's, driven step by step as stories need it."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from random import Random

from iriai.config.reader import Configuration
from iriai.home.job import JobState
from iriai.machine.checks import check_stored
from iriai.machine.core import Machine
from iriai.machine.outbox import Turn
from iriai.model.ids import Account, AttemptId, JobId
from iriai.model.instant import Instant
from iriai.model.job import JobSpec
from iriai.model.reason import Rule
from iriai.model.resources import Resources
from iriai.model.state import TaskState
from iriai.sim.world.clock import WALL_S, Clock
from iriai.sim.world.launcher_model import LauncherModel
from iriai.sim.world.machine_model import MachinePlan, SimulatedMachine
from iriai.sim.world.store_model import StoreModel
from iriai.sim.world.work import SUCCESS, Work, Works
from tests.support.monotonic_checks import MonotonicChecks

HOME = "ume"
TURNS_MAX = 200_000
"""More turns than any story has: time does not pass any more."""


class VirtualMachine:
    """Drives a `SimulatedMachine`; seconds are those of `now_s`, which begins at 1000."""

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
        self.is_checked = is_checked
        self.now_s = 1000.0
        self.watch = MonotonicChecks()
        self.works = Works()
        capacity = Resources(cpus, memory_bytes, gpus)
        plan = MachinePlan(HOME, capacity, configuration=configuration or Configuration())
        rng = Random(seed)
        self.simulated = SimulatedMachine(plan, Clock(), self.works, rng, rng)
        self.simulated.on_turn = self._check
        self.restart()

    @property
    def machine(self) -> Machine:
        """The product's parts."""
        return self.simulated.core

    @property
    def launcher(self) -> LauncherModel:
        """What runs, and what ran."""
        return self.simulated.launcher

    @property
    def store(self) -> StoreModel:
        """What is durable."""
        return self.simulated.store

    @property
    def settled(self) -> list[int]:
        """Jobs that whoever waits was told of."""
        return self.simulated.settled

    @property
    def configuration(self) -> Configuration:
        """What it was told."""
        return self.simulated.plan.configuration

    @property
    def capacity(self) -> Resources:
        """What the machine has; another from the next restart on."""
        return self.simulated.plan.capacity

    @capacity.setter
    def capacity(self, capacity: Resources) -> None:
        self.simulated.plan = replace(self.simulated.plan, capacity=capacity)

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
        job = self.simulated.submit(
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
            self.now_s,
        )
        if work is not None or run_s is not None:
            self.works.give(HOME, job.number, work or Work(run_s))
        return job

    def cancel(self, job: JobId, *indices: int) -> int:
        """Cancel tasks of a job, all where none is named."""
        return self.machine.home.cancel(job.number, indices, "test")

    # --- what happens to machines ----------------------------------------------------------------

    def restart(self, configuration: Configuration | None = None) -> None:
        """A daemon comes up from the store; an earlier one is gone with all that it had in mind."""
        if configuration is not None:
            self.simulated.plan = replace(self.simulated.plan, configuration=configuration)
        if not self.launcher.is_up:
            self.launcher.start(self.now_s)
            self.launcher.is_up = False
        self.simulated.start(self.now_s)
        self.turn()

    def crash(self, *, is_durable: bool) -> None:
        """The daemon dies within a turn, before its records are kept or just after, and is back."""
        turn = self.settle()
        if is_durable:
            self.store.write(turn.records)
        self.restart()

    def kill_launcher(self) -> None:
        """The launcher dies; what it ran dies when a new one finds it."""
        self.simulated.kill_launcher(self.now_s)
        self.turn()

    def start_launcher(self) -> None:
        """A new launcher comes up, with the journal of the old one."""
        self.simulated.start_launcher(self.now_s)
        self.turn()

    # --- time ------------------------------------------------------------------------------------

    def turn(self) -> None:
        """What has arrived is handled, its records are kept, its effects performed."""
        self.simulated.turn(self.now_s)

    def settle(self) -> Turn:
        """A turn of which nothing is kept nor performed."""
        return self.simulated.end_turn(self.now_s)[0]

    def _check(self, simulated: SimulatedMachine, turn: Turn, now: Instant) -> None:
        if self.is_checked:
            self.machine.check(now)
            self.watch.check(self.machine, now)
            check_stored(self.machine.node, self.machine.home, self.store.load())

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
            if until_s == inf and not self.machine.home.jobs and not self.simulated.inbox:
                return
            next_s = self.simulated.next_s(self.now_s)
            if next_s > until_s or next_s == inf:
                return
            self.now_s = max(self.now_s, next_s)
            self.simulated.step(self.now_s)
        raise AssertionError("this story has no end")

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
