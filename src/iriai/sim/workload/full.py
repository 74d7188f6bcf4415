"""Full simulation of a log: home, broker and node with every message between them.

The machine of the log is one node with as many cpus as it has processors; a job's width is its
cpus. With several machines each has a node, beside one of home and broker, and a job's width is its
ranks. Nothing takes time but the jobs, so that they start as in `replay`.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf
from random import Random

from iriai.model.job import JobSpec
from iriai.model.ranks import ONE, RankShape
from iriai.model.resources import Resources
from iriai.protocol.messages.effects import Part
from iriai.sim.workload.booked_full import BookedWorld
from iriai.sim.workload.log import Log, LogJob, Progress, Record, no_progress, with_starts
from iriai.sim.workload.reservations import LogRun
from iriai.sim.workload.settings import ALONE, ReplaySettings, machines_of
from iriai.sim.world.clock import Clock
from iriai.sim.world.machine_model import MachinePlan
from iriai.sim.world.network import NetworkPlan
from iriai.sim.world.work import ProcessModel, Work
from iriai.sim.world.world import ZERO_DELAY, World

FRONT = "front"
PROGRESS_JOBS = 64
"""Between two calls of `Progress`."""


def simulate(log: Log, settings: ReplaySettings, progress: Progress = no_progress) -> list[Record]:
    """Return the start and end of each job of `log`, in its order."""
    return simulate_all(log, settings, progress).records


def simulate_all(
    log: Log,
    settings: ReplaySettings,
    progress: Progress = no_progress,
    network: NetworkPlan = ZERO_DELAY,
) -> LogRun:
    """Return what became of the jobs and reservations of `log`, over such a network."""
    run = _FullRun(log, settings, progress, network)
    records = run.run()
    if run.booked is None:
        return LogRun(records)
    return LogRun(records, run.booked.outcomes, run.booked.promises.broken)


class _FullRun:
    """One log in a world of its machines."""

    def __init__(
        self, log: Log, settings: ReplaySettings, progress: Progress, network: NetworkPlan
    ) -> None:
        self.world = World(settings.seed, network, through_wire=settings.through_wire)
        self._log = log
        self._progress = progress
        self._starts: dict[int, float] = {}
        """By the home's number, which is the place in the log, from 1."""
        self._submitted = 0
        self._are_many = settings.machines > 1
        plan = MachinePlan(
            ALONE,
            Resources(log.processors),
            configuration=settings.configuration_for(log),
            policy=settings.plan_source(),
        )
        rng = Random(settings.seed)  # as in `replay`, so that both throw the same
        if settings.through_wire or self._are_many:  # within a machine nothing is sent
            front = replace(plan, name=FRONT, parts=(Part.HOME, Part.BROKER))
            self._front = self.world.add(front, Clock(wall_s=log.began_wall_s), rng)
            for name, cpus in machines_of(log, settings.machines):
                parts = (Part.NODE,)
                node = replace(
                    plan, name=name, capacity=Resources(cpus), parts=parts, broker_at=FRONT
                )
                machine = self.world.add(node, Clock(wall_s=log.began_wall_s))
                machine.launcher.on_start = self._started
            self.world.run_until(0.0)  # they are linked before anything comes
        else:
            self._front = self.world.add(plan, Clock(wall_s=log.began_wall_s), rng)
            self._front.launcher.on_start = self._started
        self.booked: BookedWorld | None = None
        """None: nothing is reserved."""
        if log.reservations:
            self.booked = BookedWorld(self.world, self._front, log, settings.machines)
        if settings.is_checked:
            self.world.watchers.append(lambda machine, _turn, now: machine.core.check(now))

    def run(self) -> list[Record]:
        """Run until the last job has ended, and return the records."""
        jobs, world = self._log.jobs, self.world
        if jobs:
            world.agenda.at(jobs[0].submit_s, self._submit)
        home = self._front.core.home
        while self._submitted < len(jobs) or home.jobs or not self._are_over:
            assert world.agenda.next_s < inf, f"{len(home.jobs)} jobs never end"
            world.agenda.run_one()
        self._progress(len(jobs), world.now_s)
        return with_starts(self._log, (self._starts[n] for n in range(1, len(jobs) + 1)))

    @property
    def _are_over(self) -> bool:
        return self.booked is None or self.booked.are_over

    def _submit(self) -> None:
        """Submit all jobs of this moment, and schedule the next submission."""
        jobs, now_s = self._log.jobs, self.world.now_s
        while self._submitted < len(jobs) and jobs[self._submitted].submit_s <= now_s:
            job = jobs[self._submitted]
            self._submitted += 1
            spec = _spec(job, are_ranks=self._are_many)
            self.world.submit(self._front.plan.name, spec, Work(job.run_s))
            if self._submitted % PROGRESS_JOBS == 0:
                self._progress(self._submitted, now_s)
        if self._submitted < len(jobs):
            self.world.agenda.at(jobs[self._submitted].submit_s, self._submit)

    def _started(self, process: ProcessModel) -> None:
        self._starts[process.attempt.number] = process.started_s
        if self.booked is not None:
            self.booked.started(process.attempt.number)


def _spec(job: LogJob, *, are_ranks: bool) -> JobSpec:
    """Return what is submitted; `are_ranks`: the job's width is its ranks."""
    is_wide = are_ranks and job.width > 1
    return JobSpec(
        job.account,
        job.account.user,
        str(job.number),
        ("true",),
        "/",
        Resources(1 if is_wide else job.width),
        time_limit_s=job.estimate_s,
        kill_grace_s=0.0,
        shape=RankShape(job.width, job.width) if is_wide else ONE,
    )
