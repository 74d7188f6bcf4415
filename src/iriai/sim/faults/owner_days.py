"""A world of a day whose owners come by day and hour, with long jobs, and faults beside.

Desks have the profiles of the product, one that discards, and one without any. After the day owners
stay away and nothing breaks: every job must end, once.
"""

from __future__ import annotations

from functools import partial

from msgspec.structs import replace as with_fields

from iriai.config.reader import Configuration
from iriai.config.sections import OrderSection, OwnerSection
from iriai.model.resources import Resources
from iriai.protocol.messages.effects import Part
from iriai.sim.faults.actions import Happening, end_all, enter
from iriai.sim.faults.checker import Checker
from iriai.sim.faults.scenario import LAN, Scenario
from iriai.sim.faults.search import failure_of
from iriai.sim.faults.user_requests import Submission
from iriai.sim.world.clock import Clock
from iriai.sim.world.machine_model import MachinePlan
from iriai.sim.world.owner_days import DAY_S, HOUR_S, habits_of, visits_of
from iriai.sim.world.rng import Rng
from iriai.sim.world.work import Work

HOME = "front"
PROFILES = (
    OwnerSection(profile="desk", users=("owner",)),
    OwnerSection(profile="classroom", users=("owner",)),
    OwnerSection(discard=0.0, resume=300.0, users=("owner",)),
    OwnerSection(),
)
"""Of a desk each."""
ALWAYS = OrderSection(offpeak_factor=1.0, half_life_s=1e9)
"""Nights cost as much as days, and a day weighs as much as another: what is charged is known."""
SIGN_EACH = 1_200
"""Tenths of a second between two signs of an owner who is there."""
JOBS, JOB_H = 8, (0.5, 5.0)
LEASE_S = 600.0
FAULTS = ("daemon-dies", "launcher-dies", "power-fails", "daemon-stops", "sensor-fails")
FAULTS_MAX = 8
PATIENCE_S, CHECK_EACH_S = 5 * DAY_S, HOUR_S


def day_of(seed: int) -> Scenario:
    """Return the day of a seed."""
    rng = Rng(seed, "days")
    owners = rng.pick((PROFILES[:3], PROFILES[1:], (PROFILES[0], PROFILES[3])))
    plain = with_fields(Configuration(), order=ALWAYS)
    front = MachinePlan(HOME, Resources(1), (Part.HOME, Part.BROKER), HOME, plain)
    plans = [front]
    happenings: list[Happening] = []
    for number, owner in enumerate(owners):
        configuration = with_fields(plain, owner=owner)
        name = f"desk{number}"
        plans.append(MachinePlan(name, Resources(1), (Part.NODE,), HOME, configuration))
        if owner.users:
            for begin_s, end_s in visits_of(rng, habits_of(rng), 1):
                lasts_s = min(end_s, DAY_S) - begin_s
                happenings.append(Happening(begin_s, "owner-comes", name, lasts_s, "", SIGN_EACH))
    for _ in range(JOBS):
        work = Work(rng.between(*JOB_H) * HOUR_S, stubborn=rng.chance(0.2))
        submission = Submission("ann", 1, 1 + rng.below(2), work, lease_s=LEASE_S)
        at_s = rng.between(10.0, 0.75 * DAY_S)
        happenings.append(Happening(at_s, "submit", HOME, submission=submission))
    desks = [plan.name for plan in plans[1:]]
    for _ in range(rng.below(FAULTS_MAX + 1)):
        at_s, lasts_s = rng.between(HOUR_S, 0.9 * DAY_S), rng.between(1.0, 1_800.0)
        happenings.append(Happening(at_s, rng.pick(FAULTS), rng.pick(desks), lasts_s))
    clocks = tuple(Clock() for _ in plans)
    return Scenario(seed, LAN, False, tuple(plans), clocks, tuple(happenings), False)


def fails_by_day(seed: int) -> str | None:
    """Play the day of a seed; return what fails, or None."""
    return failure_of(partial(_play, day_of(seed)))


def _play(scenario: Scenario) -> None:
    world = scenario.world()
    checker = Checker(world)
    for happening in scenario.happenings:
        enter(world, happening)
    world.run_until(DAY_S)
    end_all(world)
    until_s = world.now_s + PATIENCE_S
    while checker.unfinished():
        assert world.now_s < until_s, f"never end: {', '.join(checker.unfinished())}"
        world.run_until(world.now_s + CHECK_EACH_S)
    checker.check_end()
