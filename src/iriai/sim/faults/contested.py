"""Two reservations that both want the time between them, at once, in a scenario.

They are made while all machines are free, so that they stand; then both are changed, and tasks and
a third reservation come meanwhile. docs/spec/017, section 4, has what comes of later versions.
"""

from __future__ import annotations

from dataclasses import replace

from msgspec.structs import replace as with_fields

from iriai.model.ids import ReservationId
from iriai.model.reservation import HORIZON_S
from iriai.sim.faults.actions import Happening
from iriai.sim.faults.reserving import (
    LATER_CONFIRMED,
    LATER_HELD,
    NEXT_ASKED,
    NEXT_DECIDED,
    RESERVING_STEPS,
)
from iriai.sim.faults.user_requests import AskedReservation, ChangedReservation, Submission
from iriai.sim.world.machine_model import MachinePlan
from iriai.sim.world.rng import Rng
from iriai.sim.world.work import SUCCESS, Work

CHANGE = "modify-reservation"
STEPS_OF_HOMES = (NEXT_ASKED, NEXT_DECIDED)
STEPS_OF_NODES = (LATER_HELD, LATER_CONFIRMED)
AT_ONCE_S = 0.02
"""The broker does not know yet what machines have promised."""


def contested(
    rng: Rng,
    happenings: list[Happening],
    homes: list[str],
    nodes: list[str],
    begin_s: float,
    *,
    is_calm: bool,
) -> list[Happening]:
    """Return the same after two reservations of one home, which have its first numbers."""
    home, count = rng.pick(homes), rng.pick((len(nodes), 1 + rng.below(len(nodes))))
    first_s, length_s, gap_s = rng.between(60.0, 90.0), 60.0, rng.between(70.0, 100.0)
    hold_s = rng.pick((10.0, 10.0, 2.0))
    first = AskedReservation("ann", first_s, length_s, count, hold_s=hold_s)
    second = replace(first, user="bob", ahead_s=first_s + length_s + gap_s)
    found = [_renumbered(each, home) for each in happenings]
    found += [Happening(begin_s, "reserve", home, asked=each) for each in (first, second)]
    at_s = begin_s + rng.between(5.0, 20.0)
    taken_s = gap_s * rng.between(0.6, 0.9)
    rivals = ChangedReservation(longer_s=taken_s), ChangedReservation(later_s=-taken_s)
    for number, change in enumerate(rivals, start=1):
        moment_s = at_s + rng.between(0.0, AT_ONCE_S)
        found.append(Happening(moment_s, CHANGE, home, number=number, asked=change))
    third = replace(first, user="eve", ahead_s=first_s + length_s + 5.0, nodes=1)
    third_s = at_s + rng.between(0.1, 5.0)
    third = replace(third, ahead_s=third.ahead_s - (third_s - begin_s))
    found.append(Happening(third_s, "reserve", home, asked=third))
    earlier = ChangedReservation(later_s=-rng.between(10.0, 40.0))
    found.append(Happening(begin_s + rng.between(1.5, 4.0), CHANGE, home, number=1, asked=earlier))
    found += [_long_task(rng, homes, begin_s + rng.between(1.5, 8.0)) for _ in range(2)]
    return found if is_calm else found + _deaths(rng, home, nodes, begin_s)


def with_machines_for_all(plans: list[MachinePlan]) -> list[MachinePlan]:
    """Return machines which anybody may reserve wholly, far ahead."""
    return [_for_all(plan) for plan in plans]


def _for_all(plan: MachinePlan) -> MachinePlan:
    before = plan.configuration
    machine = with_fields(before.machine, reservable=1.0, reservable_by=("all",))
    reservations = with_fields(before.reservations, horizon_s=HORIZON_S)
    after = with_fields(before, machine=machine, reservations=reservations)
    return replace(plan, configuration=after)


def _renumbered(happening: Happening, home: str) -> Happening:
    """Return the same where two more reservations of a home came before."""
    submission = happening.submission
    if submission is not None and submission.reservation is not None:
        named = submission.reservation
        if named.home != home:
            return happening
        named = ReservationId(home, named.number + 2)
        return replace(happening, submission=replace(submission, reservation=named))
    is_of_home = happening.machine == home and happening.kind.endswith("-reservation")
    return replace(happening, number=happening.number + 2) if is_of_home else happening


def _long_task(rng: Rng, homes: list[str], at_s: float) -> Happening:
    work = Work(rng.pick((60.0, 120.0)), SUCCESS)
    submission = Submission("eve", 1, 1, work, limit_s=rng.pick((None, 150.0)), evictable=True)
    return Happening(at_s, "submit", rng.pick(homes), submission=submission)


def _deaths(rng: Rng, home: str, nodes: list[str], begin_s: float) -> list[Happening]:
    """Return daemons that die when some nodes have a later version, and others may not."""
    whole = RESERVING_STEPS * 3
    of_home = Happening(
        begin_s + rng.between(0.5, 5.0),
        "dies-reserving",
        home,
        rng.between(0.0, 20.0),
        number=whole + rng.pick(STEPS_OF_HOMES),
    )
    of_node = replace(of_home, machine=rng.pick(nodes), number=whole + rng.pick(STEPS_OF_NODES))
    return rng.pick(([], [of_home], [of_node], [of_node]))
