"""Machines with owners, and what these do, in a scenario (docs/spec/016)."""

from __future__ import annotations

from dataclasses import replace
from math import inf

from msgspec.structs import replace as with_fields

from iriai.config.sections import OwnerSection
from iriai.protocol.messages.effects import Part
from iriai.sim.faults.actions import Happening
from iriai.sim.world.machine_model import MachinePlan
from iriai.sim.world.rng import Rng

OWNER_CHANCE = 0.7
"""Of a machine that runs tasks, in a seed with owners."""
SKIP_CHANCE = 0.2
"""Of a job, in a seed with owners."""
WATCH_CHANCE = 0.5
"""Of a machine with an owner, that it looks for conditions."""
EXEMPT = ((), (), ("ann",))
DIES_AFTER, DIES_FOR_S = 0.3, 0.5
"""When a daemon dies that was told a word, as a part of how long that holds, and for how long."""
SUSPENDS_S = (0.0, 0.0, 0.0, 5.0, inf)
VACATES_S = (0.0, 10.0, 30.0, inf)
DISCARDS_S = (0.0, 12.0, inf, inf)
CONTINUES_S = (5.0, 20.0)
SUSPEND_IDLE_S, RESUME_IDLE_S = 30, 60
EXPRESSION_CHANCE = 0.2
"""Of an owner whose steps are expressions."""
EXPRESSIONS = OwnerSection(
    suspend=f"OwnerIdle < {SUSPEND_IDLE_S} || CpuBusyTime > 20",
    resume=f"KeyboardIdle > {RESUME_IDLE_S} && OwnerLoad < 0.5",
    vacate='Activity == "Suspended" && CurrentTime - EnteredCurrentActivity > 90',
    users=("owner",),
)
KINDS = (
    *("owner-comes", "owner-comes", "owner-comes", "owner-says"),
    *("sensor-fails", "machine-sleeps"),
)


def with_owner(rng: Rng, plan: MachinePlan) -> MachinePlan:
    """Return a machine that may have an owner."""
    if Part.NODE not in plan.parts or not rng.chance(OWNER_CHANCE):
        return plan
    if rng.chance(EXPRESSION_CHANCE):
        section = with_fields(EXPRESSIONS, exempt=rng.pick(EXEMPT))
        return replace(plan, configuration=with_fields(plan.configuration, owner=section))
    section = OwnerSection(
        suspend=rng.pick(SUSPENDS_S),
        resume=rng.pick(CONTINUES_S),
        vacate=rng.pick(VACATES_S),
        discard=rng.pick(DISCARDS_S),
        exempt=rng.pick(EXEMPT),
        users=("owner",),
    )
    return replace(plan, configuration=with_fields(plan.configuration, owner=section))


def _continues_s(section: OwnerSection) -> float:
    return section.resume if isinstance(section.resume, float) else float(RESUME_IDLE_S)


def visits(rng: Rng, plans: list[MachinePlan], begin_s: float, until_s: float) -> list[Happening]:
    """Return what the owners of these machines do between two moments.

    Some signs come just when tasks are about to go on again. Where they say a word their daemon
    dies while that holds, and comes back.
    """
    happenings = []
    for plan in (plan for plan in plans if plan.configuration.owner.users):
        left_alone = int(10 * _continues_s(plan.configuration.owner))
        for _ in range(1 + rng.below(5)):
            lasts_s = rng.pick((0.0, rng.between(0.0, 5.0), rng.between(5.0, 60.0)))
            kind = rng.pick(KINDS)
            every = rng.pick((1 + rng.below(60), left_alone + rng.below(5)))
            at_s = rng.between(begin_s, until_s)
            happenings.append(Happening(at_s, kind, plan.name, lasts_s, number=every))
            if kind == "owner-says":
                happenings.append(
                    Happening(at_s + lasts_s * DIES_AFTER, "daemon-dies", plan.name, DIES_FOR_S)
                )
    return happenings


def with_conditions(
    rng: Rng, plans: list[MachinePlan], begin_s: float, until_s: float
) -> tuple[list[MachinePlan], list[Happening]]:
    """Return the machines, of which some with owners watch for conditions; and when these hold."""
    machines, happenings = [], []
    for plan in plans:
        owner = plan.configuration.owner
        if not owner.users or not isinstance(owner.resume, float) or not rng.chance(WATCH_CHANCE):
            machines.append(plan)
            continue
        section = with_fields(owner, on_battery=True, programs=("zoom",))
        changed = with_fields(plan.configuration, owner=section)
        machines.append(replace(plan, configuration=changed))
        for _ in range(1 + rng.below(3)):
            begins_s, lasts_s = rng.between(begin_s, until_s), rng.between(0.0, 60.0)
            happenings.append(
                Happening(begins_s, "condition-holds", plan.name, lasts_s, number=rng.below(2))
            )
    return machines, happenings


def skipping(rng: Rng, happening: Happening) -> Happening:
    """Return a submission whose tasks may skip the step suspend, or save themselves.

    What else happens is as it was.
    """
    submission = happening.submission
    if submission is None:
        return happening
    if rng.chance(SKIP_CHANCE):
        submission = replace(submission, no_suspend=True)
    if rng.chance(SKIP_CHANCE):
        work = submission.work._replace(saves=1 + rng.below(3))
        submission = replace(submission, checkpoint_exit=85, work=work)
    return replace(happening, submission=submission)
