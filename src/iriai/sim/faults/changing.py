"""A policy that changes jobs at random, and machines that propose changes though they lead nobody.

docs/spec/002, section 2, has what homes make of that.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from msgspec.structs import replace as with_fields

from iriai.machine.outbox import Turn
from iriai.model.ids import AttemptId, JobId
from iriai.model.instant import Instant
from iriai.model.policy_terms import JobAction
from iriai.model.records import JobEvent, Requeued
from iriai.policy.placement.job_decisions import (
    EndJob,
    EndTask,
    HoldJob,
    JobDecision,
    ModifyJob,
    OfJob,
    OfTask,
    ReleaseJob,
    RequeueTask,
    SuspendTask,
    UnsuspendTask,
)
from iriai.policy.placement.policy_api import (
    Decision,
    PlacedTask,
    PlanSource,
    Start,
    View,
    WaitingJob,
    seats_now,
)
from iriai.protocol.messages.effects import Part, Send
from iriai.protocol.messages.proposals import Propose
from iriai.sim.faults.actions import Action, DeathInWriting, Happening
from iriai.sim.faults.scenario import BEGIN_S, FAULTS_UNTIL_S, Scenario, scenario_of
from iriai.sim.faults.user_requests import Submission
from iriai.sim.world.clock import WALL_S
from iriai.sim.world.machine_model import MachinePlan, SimulatedMachine
from iriai.sim.world.rng import Rng
from iriai.sim.world.work import SUCCESS, Work
from iriai.sim.world.world import World

LOOKS_S = 3.0
"""Between two looks of the policy, where nothing happens."""
CHANGE_CHANCE = 0.15
"""That it changes a job, or a task, that it sees."""
REQUEUED_MAX = 3
"""The attempt of a task beyond which it is not sent back: every job ends."""
STRAY = "Stray"
"""The name of the policy of machines that are no broker."""
PERMITTED: tuple[tuple[JobAction, ...], ...] = (
    tuple(JobAction),
    tuple(JobAction),
    (),
    (JobAction.HOLD, JobAction.RELEASE),
    (JobAction.SUSPEND, JobAction.UNSUSPEND, JobAction.MODIFY),
    (JobAction.REQUEUE, JobAction.END),
)


class ChangingPolicy:
    """Starts jobs that fit, in order, and changes some; what it does follows from the clock alone.

    From the end of all faults on it takes back what it did.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self.wake_s = 0.0

    def plan(self, view: View, now: Instant) -> Iterator[Decision]:
        """Change some jobs, then start what fits, in order."""
        self.wake_s = now.steady_s + LOOKS_S
        rng = Rng(self._seed, f"{now.steady_s:.3f}")
        is_over = now.wall_s > WALL_S + FAULTS_UNTIL_S
        changes = _undone(view) if is_over else _changes(view, rng)
        yield from list(_permitted(view, changes))
        for job in view.queue():
            for _ in range(job.tasks):
                seats = seats_now(job, view.machines)
                if not seats:
                    break
                yield Start(job.id, seats=seats)


def _permitted(view: View, changes: Iterator[JobDecision]) -> Iterator[Decision]:
    for each in changes:
        if view.may(type(each), _job_of(each)):
            yield each


def _job_of(decision: JobDecision) -> JobId:
    if isinstance(decision, OfJob):
        return decision.job
    return JobId(decision.attempt.home, decision.attempt.number)


def _undone(view: View) -> Iterator[JobDecision]:
    """Yield what lets all go on that a policy keeps."""
    for job in view.held:
        if job.is_policys:
            yield ReleaseJob(job.id)
    for machine in view.machines:
        for task in machine.tasks():
            if task.attempt is not None and task.is_suspended and task.reservation is None:
                yield UnsuspendTask(task.attempt)


def _changes(view: View, rng: Rng) -> Iterator[JobDecision]:
    for held in view.held:
        if rng.chance(CHANGE_CHANCE):
            yield EndJob(held.id) if rng.chance(0.3) else ReleaseJob(held.id)
    for job in view.queue():
        if rng.chance(CHANGE_CHANCE):
            yield _of_job(job, rng)
    for machine in view.machines:
        for task in machine.tasks():
            if task.attempt is not None and task.reservation is None and rng.chance(CHANGE_CHANCE):
                yield _of_task(task, task.attempt, rng)


def _of_job(job: WaitingJob, rng: Rng) -> OfJob:
    if rng.chance(0.05):
        return EndJob(job.id)
    if rng.chance(0.5):
        return HoldJob(job.id, rng.pick(("user", "operator")))
    limit_s = rng.pick((None, 5.0, 60.0))
    return ModifyJob(
        job.id,
        comment=rng.pick((None, "later", "soon")),
        queue=rng.pick((None, 0, 1, 2)),
        urgency=rng.pick((None, 1.0, 2.0)),
        time_limit_s=limit_s,
    )


def _of_task(task: PlacedTask, attempt: AttemptId, rng: Rng) -> OfTask:
    if task.is_suspended:
        return UnsuspendTask(attempt)
    if rng.chance(0.1):
        return EndTask(attempt)
    if rng.chance(0.5) and attempt.attempt < REQUEUED_MAX:
        return RequeueTask(attempt)
    return SuspendTask(attempt)


@dataclass(frozen=True, slots=True)
class StrayProposal(Happening):
    """A machine proposes changes of jobs of a home, whatever that permits.

    As the broker it does so in the name of the policy; else in that of one that leads nobody.
    """

    to: str = ""

    @property
    def action(self) -> Action:
        """Return what happens."""
        return _strays


def _strays(world: World, machine: SimulatedMachine, happening: Happening) -> None:
    assert isinstance(happening, StrayProposal), "of its kind"
    home = world.machines[happening.to]
    if not (machine.is_up and home.is_up):
        return
    action = tuple(JobAction)[happening.number % len(JobAction)]
    term, number, name = 1e9, happening.number, STRAY
    if machine.core.own_broker is not None and machine.plan.policy is not None:
        wall_s = machine.clock.at(world.now_s).wall_s
        term, number, name = 0.0, int(wall_s * 1000.0), machine.plan.policy.name
    for job in list(home.core.home.jobs.values())[:3]:
        index, task = next(iter(job.tasks.items()), (0, None))
        attempt = AttemptId(happening.to, job.number, index, 1 if task is None else task.attempt)
        about = None if action in (JobAction.HOLD, JobAction.RELEASE) else attempt
        message = Propose(JobId(happening.to, job.number), term, number, name, action, about)
        world.network.send(machine, Send(happening.to, Part.HOME, message))


@dataclass(frozen=True, slots=True)
class DeathRequeueing(Happening):
    """A home dies as soon as it has stored that a task is to leave, before its machine hears."""

    @property
    def action(self) -> Action:
        """Return what happens."""
        return _dies_requeueing


def _dies_requeueing(world: World, machine: SimulatedMachine, happening: Happening) -> None:
    world.watchers.append(_RequeueWatcher(world, machine, happening))


class _RequeueWatcher(DeathInWriting):
    """A watcher that kills a daemon which has written that a task is to leave."""

    def is_time(self, turn: Turn) -> bool:
        """Return whether the machine, after this turn of it, dies."""
        return any(
            isinstance(record, JobEvent) and isinstance(record.change, Requeued)
            for record in turn.records
        )


def changing_scenario(seed: int) -> Scenario:
    """Return the scenario of a seed, with a policy that changes jobs, and strangers that would.

    Under a policy of one's own no task is frozen for a higher queue, so that no queue has a mode.
    """
    permits = Rng(seed, "permits")
    source = PlanSource(ChangingPolicy(seed), "changing.py")

    def with_policy(plans: list[MachinePlan]) -> list[MachinePlan]:
        return [_permitting(plan, permits.pick(PERMITTED), source) for plan in plans]

    scenario = scenario_of(seed, with_policy)
    plans = tuple(_without_modes(plan) for plan in scenario.plans)
    happenings = [*scenario.happenings, *_stray_proposals(seed, plans), *_persons(seed, plans)]
    happenings += [] if scenario.is_calm else _deaths(seed, plans)
    happenings.sort(key=lambda each: each.at_s)
    return replace(scenario, plans=plans, happenings=tuple(happenings))


def _permitting(plan: MachinePlan, may: tuple[JobAction, ...], source: PlanSource) -> MachinePlan:
    jobs = with_fields(plan.configuration.jobs, policy_may=may)
    return replace(plan, policy=source, configuration=with_fields(plan.configuration, jobs=jobs))


def _without_modes(plan: MachinePlan) -> MachinePlan:
    queues = {
        number: with_fields(queue, mode="shared", residence_s=None)
        for number, queue in plan.configuration.queues.items()
    }
    return replace(plan, configuration=with_fields(plan.configuration, queues=queues))


def _stray_proposals(seed: int, plans: tuple[MachinePlan, ...]) -> list[Happening]:
    rng = Rng(seed, "strays")
    homes = [plan.name for plan in plans if Part.HOME in plan.parts]
    names = [plan.name for plan in plans]
    return [
        StrayProposal(
            rng.between(BEGIN_S, FAULTS_UNTIL_S),
            "stray-proposal",
            rng.pick(names),
            number=1 + rng.below(1_000),
            to=rng.pick(homes),
        )
        for _ in range(rng.below(16))
    ]


def _deaths(seed: int, plans: tuple[MachinePlan, ...]) -> list[Happening]:
    """Return homes that die once, with what they had just written kept."""
    rng = Rng(seed, "requeueing")
    homes = [plan.name for plan in plans if Part.HOME in plan.parts]
    moments = [rng.between(BEGIN_S, FAULTS_UNTIL_S) for _ in range(rng.below(4))]
    return [
        DeathRequeueing(at_s, "dies-requeueing", rng.pick(homes), rng.between(0.0, 10.0), number=3)
        for at_s in moments
    ]


def _persons(seed: int, plans: tuple[MachinePlan, ...]) -> list[Happening]:
    """Return holds of people, and jobs that run long: what policies must not undo, and may end."""
    rng = Rng(seed, "persons")
    homes = [plan.name for plan in plans if Part.HOME in plan.parts]
    moments = [rng.between(BEGIN_S, FAULTS_UNTIL_S) for _ in range(rng.below(6))]
    holds = [
        Happening(at_s, "hold", rng.pick(homes), rng.between(5.0, 60.0), number=1 + rng.below(6))
        for at_s in moments
    ]
    long_ones = [
        Happening(
            rng.between(BEGIN_S, FAULTS_UNTIL_S),
            "submit",
            rng.pick(homes),
            submission=Submission("ann", 1, 1 + rng.below(2), Work(250.0, SUCCESS)),
        )
        for _ in range(rng.below(4))
    ]
    return holds + long_ones
