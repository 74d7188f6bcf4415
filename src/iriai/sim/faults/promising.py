"""Stories in which reservations come while tasks wait that were promised their starts.

Machines are full of tasks that run until their limits, others wait for their ends, and then
somebody reserves machines for just that time. Every task has a limit: else no end is known, no
start is promised, and few reservations can be had.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from msgspec.structs import replace as with_fields

from iriai.config.sections import ReservationPolicy
from iriai.sim.faults.actions import Happening
from iriai.sim.faults.user_requests import AskedReservation, Submission
from iriai.sim.world.machine_model import MachinePlan
from iriai.sim.world.rng import Rng
from iriai.sim.world.work import SUCCESS, Work

POLICIES: tuple[ReservationPolicy, ...] = ("beside", "slack")
USERS = ("ann", "bob", "eve")
LIMITS_S = (20.0, 45.0, 90.0)
"""Of the tasks that fill machines, and of those that wait for them."""
OTHERS_LIMIT_S = 150.0
AGAIN_S = (60.0, 140.0)
"""From one time that machines are filled to the next."""
LEASE_S = 20.0
ENDING_S = 8.0
"""The grace and the slack of a task."""


def with_limits(happenings: Iterable[Happening]) -> list[Happening]:
    """Return the same; each job that is submitted has a time limit."""
    limited = []
    for each in happenings:
        submission = each.submission
        if submission is not None and submission.limit_s is None:
            submission = replace(submission, limit_s=OTHERS_LIMIT_S)
        limited.append(replace(each, submission=submission))
    return limited


def with_promises(rng: Rng, plans: list[MachinePlan]) -> list[MachinePlan]:
    """Return the machines, with a policy under which no promise moves for a reservation."""
    policy = rng.pick(POLICIES)
    return [
        replace(
            plan,
            configuration=with_fields(
                plan.configuration,
                reservations=with_fields(plan.configuration.reservations, policy=policy),
            ),
        )
        for plan in plans
    ]


def reserved_beside_promises(
    rng: Rng, homes: list[str], sizes: list[int], begin_s: float, until_s: float
) -> list[Happening]:
    """Return what fills machines of such sizes, what waits for them, and what is reserved then."""
    happenings: list[Happening] = []
    at_s = begin_s + rng.between(0.0, 20.0)
    while at_s < until_s:
        happenings += _round(rng, homes, sizes, at_s)
        at_s += rng.between(*AGAIN_S)
    return happenings


def _round(rng: Rng, homes: list[str], sizes: list[int], at_s: float) -> list[Happening]:
    limit_s = rng.pick(LIMITS_S)
    filling = _job(rng, 1, sum(sizes), limit_s)
    happenings = [Happening(at_s, "submit", rng.pick(homes), submission=filling)]
    for _ in range(1 + rng.below(2)):
        waiting = _job(rng, rng.pick((max(sizes), min(sizes))), 1, rng.pick(LIMITS_S))
        moment_s = at_s + rng.between(1.0, 5.0)
        happenings.append(Happening(moment_s, "submit", rng.pick(homes), submission=waiting))
    for _ in range(1 + rng.below(3)):
        moment_s = at_s + rng.between(6.0, limit_s)
        ends_s = at_s + limit_s + ENDING_S - moment_s
        asked = AskedReservation(
            rng.pick(USERS),
            ends_s + rng.between(0.0, 60.0),
            rng.between(60.0, 120.0),
            nodes=rng.pick((1, len(sizes), 1 + rng.below(len(sizes)))),
            cpus=rng.pick((0, 0, 1)),
            is_earliest=rng.chance(0.5),
        )
        happenings.append(Happening(moment_s, "reserve", rng.pick(homes), asked=asked))
    return happenings


def _job(rng: Rng, cpus: int, tasks: int, limit_s: float) -> Submission:
    """Return a job whose tasks mostly run until their limit."""
    run_s = limit_s * rng.pick((2.0, 1.0, 1.0, 0.5))
    work = Work(run_s, SUCCESS, rng.chance(0.2))
    user = rng.pick(USERS)
    return Submission(user, cpus=cpus, tasks=tasks, work=work, limit_s=limit_s, lease_s=LEASE_S)
