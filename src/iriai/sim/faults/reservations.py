"""Reservations that users ask for and give back, and tasks in and beside them, in a scenario.

docs/spec/017 has the rules.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from msgspec.structs import replace as with_fields

from iriai.config.sections import ReservationPolicy, ReservationsSection
from iriai.model.ids import ReservationId
from iriai.model.ranks import ONE, RankShape
from iriai.model.reservation import HORIZON_S, LOST_S
from iriai.sim.faults.actions import Happening
from iriai.sim.faults.reserving import (
    DECIDED,
    LATER_CONFIRMED,
    LATER_HELD,
    NEXT_ASKED,
    NEXT_DECIDED,
    RESERVING_STEPS,
)
from iriai.sim.faults.user_requests import AskedReservation, ChangedReservation, Submission
from iriai.sim.world.clock import Clock
from iriai.sim.world.machine_model import MachinePlan
from iriai.sim.world.rng import Rng
from iriai.sim.world.work import SUCCESS, Work

DISCIPLINED_CHANCE = 0.75
"""That all clocks of a seed with reservations are within a second or so of each other."""
DISCIPLINE = 0.01
USERS = ("ann", "bob", "eve")
OTHERS = ((), (), ("bob",), ("ann", "eve"))
AHEADS_S = ((0.0, 5.0), (5.0, 60.0), (5.0, 60.0), (60.0, 240.0))
"""How long before its start a reservation is asked for: between these."""
LENGTHS_S = ((60.0, 61.0), (60.0, 120.0), (120.0, 300.0))
HOLDS_S = (10.0, 2.0, 1.0, 60.0)
"""The short ones are over before all machines have answered, on a slow network."""
LEASES_S = (12.0, 20.0, 40.0)
NO_SHOWS_S = (None, 900.0, 20.0, 60.0)
CHANGE = "modify-reservation"
LOSTS_S = (LOST_S, 5.0, 20.0, 60.0)
POLICIES: tuple[ReservationPolicy, ...] = ("beside", "beside", "slack", "above")
SLACKS_S = (10.0, 60.0, 300.0)
HORIZONS_S = (HORIZON_S, HORIZON_S, HORIZON_S, 300.0, 120.0, 120.0)
"""With the short ones an account has its share of the cluster reserved soon."""
RESERVABLE = (1.0, 1.0, 1.0, 1.0, 1.0, 0.5)
RESERVABLE_BY = (*[("all",)] * 6, ("ann", "bob"), ("lab",), ())
CPU_PARTS = (1.0, 1.0, 1.0, 0.001)
"""Of tasks inside: the last is no use."""
STEPS_OF_HOMES = (DECIDED, DECIDED, NEXT_ASKED, NEXT_DECIDED)
STEPS_OF_NODES = (LATER_HELD, LATER_CONFIRMED)
EVICTABLE = (None, None, True, False)
ASKED_UNTIL_S = 160.0
JUST_AFTER_S = 0.1
"""The broker does not know yet what machines have promised."""


def disciplined(rng: Rng, clocks: list[Clock]) -> list[Clock]:
    """Return clocks that may agree better: bookings are wall time, and clocks of machines agree."""
    return closer(clocks) if rng.chance(DISCIPLINED_CHANCE) else clocks


def closer(clocks: list[Clock]) -> list[Clock]:
    """Return clocks whose wall clocks are within a second or so of each other."""
    return [replace(each, wall_offset_s=each.wall_offset_s * DISCIPLINE) for each in clocks]


def evictable(rng: Rng, happening: Happening) -> Happening:
    """Return the same; a job that it submits may have to leave for a reservation, or may not."""
    if happening.submission is None:
        return happening
    submission = replace(happening.submission, evictable=rng.pick(EVICTABLE))
    return replace(happening, submission=submission)


def with_rules(rng: Rng, plans: list[MachinePlan]) -> list[MachinePlan]:
    """Return the machines, with one policy for all of them.

    They may give back what is not used after a few seconds.
    """
    section = ReservationsSection(
        no_show_s=rng.pick(NO_SHOWS_S),
        policy=rng.pick(POLICIES),
        slack_s=rng.pick(SLACKS_S),
        lost_s=rng.pick(LOSTS_S),
        horizon_s=rng.pick(HORIZONS_S),
    )
    return [_with_owner_limits(rng, plan, section) for plan in plans]


def _with_owner_limits(rng: Rng, plan: MachinePlan, section: ReservationsSection) -> MachinePlan:
    """Return a machine whose owner may let less of it be reserved, or not by everybody."""
    before = plan.configuration
    machine = with_fields(
        before.machine, reservable=rng.pick(RESERVABLE), reservable_by=rng.pick(RESERVABLE_BY)
    )
    return replace(plan, configuration=with_fields(before, reservations=section, machine=machine))


def reservations_of(
    rng: Rng, homes: list[str], nodes: int, cpus_max: int, sizes: list[int], begin_s: float
) -> list[Happening]:
    """Return what users do with reservations from `begin_s` on, where so many nodes are.

    `sizes`: the cpus of the machines that stay, on which jobs inside must fit: they may wait on as
    ordinary ones.
    """
    asked = _moments(rng, begin_s)
    happenings: list[Happening] = []
    numbers = dict.fromkeys(homes, 0)
    reservation: AskedReservation | None = None
    before_s = 0.0
    for at_s in asked:
        home = rng.pick(homes)
        numbers[home] += 1
        before = reservation
        reservation = _reservation(rng, nodes, cpus_max)
        if before is not None and at_s < before_s + JUST_AFTER_S:
            reservation = _overlapping(rng, reservation, before)
        before_s = at_s
        happenings.append(Happening(at_s, "reserve", home, asked=reservation))
        number = numbers[home]
        named = ReservationId(home, number if rng.chance(0.9) else 1 + rng.below(5))
        until_s = at_s + reservation.ahead_s + reservation.length_s
        happenings += [
            _fitting(_inside(rng, reservation, named, cpus_max, at_s, until_s), sizes)
            for _ in range(rng.below(5))
        ]
        happenings += _changes(rng, home, number, at_s, until_s, nodes, cpus_max)
        if rng.chance(0.4):
            kind = rng.pick(("cancel-reservation", "end-reservation"))
            given_back_s = rng.pick((rng.between(at_s, at_s + 2.0), rng.between(at_s, until_s)))
            happenings.append(Happening(given_back_s, kind, home, number=number))
    if rng.chance(0.5):
        happenings += _many_at_once(rng, homes, begin_s)
    moments = [rng.between(begin_s, ASKED_UNTIL_S) for _ in range(rng.below(5))]
    moments += [at_s + rng.between(0.0, JUST_AFTER_S) for at_s in asked if rng.chance(0.3)]
    return [*happenings, *(_beside(rng, homes, cpus_max, at_s) for at_s in moments)]


def _changes(
    rng: Rng, home: str, number: int, at_s: float, until_s: float, nodes: int, cpus_max: int
) -> list[Happening]:
    """Return changes of a reservation, before it opens and while it is open."""
    return [
        Happening(
            rng.pick((rng.between(at_s, at_s + 10.0), rng.between(at_s, until_s))),
            CHANGE,
            home,
            number=number,
            asked=ChangedReservation(
                rng.pick((0.0, 0.0, rng.between(-20.0, 40.0))),
                rng.pick((0.0, rng.between(-60.0, 60.0))),
                rng.pick((0, 0, 1, -1, nodes)),
                rng.pick((None, None, 0, 1, min(2, cpus_max))),
                rng.pick((None, ("bob",))),
            ),
        )
        for _ in range(rng.below(4))
    ]


def rivals(rng: Rng, happenings: list[Happening], nodes: int) -> list[Happening]:
    """Return changes of two reservations to the same time on all nodes, at once: one is refused.

    The broker knows of neither, so the nodes refuse one that others hold.
    """
    numbers: dict[str, int] = {}
    named: list[tuple[Happening, AskedReservation, int]] = []
    for each in sorted(happenings, key=lambda each: each.at_s):
        if each.kind == "reserve":
            numbers[each.machine] = number = numbers.get(each.machine, 0) + 1
            if isinstance(each.asked, AskedReservation):
                named.append((each, each.asked, number))
    found = []
    for first, second in pairwise(named):
        at_s = second[0].at_s + rng.between(2.0, 8.0)
        start_s = at_s + rng.between(30.0, 120.0)
        for happening, asked, number in (first, second):
            later_s = start_s - happening.at_s - asked.ahead_s
            change = ChangedReservation(later_s, 0.0, max(0, nodes - asked.nodes), 0)
            moment_s = at_s + rng.between(0.0, JUST_AFTER_S / 2)
            home = happening.machine
            found.append(Happening(moment_s, CHANGE, home, number=number, asked=change))
    return found if rng.chance(0.5) else []


def _many_at_once(rng: Rng, homes: list[str], begin_s: float) -> list[Happening]:
    """Return what a user does who asks for more than can be a share, all at one moment."""
    at_s, user = begin_s + rng.between(0.0, 2.0), rng.pick(USERS)  # while machines are free
    ahead_s, length_s = rng.between(10.0, 60.0), rng.between(60.0, 100.0)
    asked = AskedReservation(user, ahead_s, length_s, nodes=1)
    return [Happening(at_s, "reserve", rng.pick(homes), asked=asked) for _ in range(6)]


def _moments(rng: Rng, begin_s: float) -> list[float]:
    """Return when reservations are asked for: some just after others, before machines say so."""
    moments = []
    for _ in range(1 + rng.below(3)):
        at_s = rng.between(begin_s, ASKED_UNTIL_S)
        moments += [at_s, at_s + rng.between(0.0, JUST_AFTER_S)][: 1 + rng.chance(0.5)]
    return sorted(moments)


def deaths(rng: Rng, names: list[str], begin_s: float) -> list[Happening]:
    """Return daemons that die at one of the steps of a reservation, and come back."""
    return [
        Happening(
            rng.between(begin_s, ASKED_UNTIL_S),
            "dies-reserving",
            rng.pick(names),
            rng.pick((rng.between(0.0, 2.0), rng.between(2.0, 60.0))),
            number=RESERVING_STEPS * rng.below(4) + rng.below(RESERVING_STEPS),
        )
        for _ in range(rng.below(9))
    ]


def deaths_deciding(
    rng: Rng, homes: list[str], nodes: list[str], begin_s: float
) -> list[Happening]:
    """Return daemons that die when others have part of what is to be, for longer than holds last.

    What they had just written is kept, as a rule.
    """
    happenings = []
    for _ in range(rng.below(5)):
        is_home = rng.chance(0.6)
        step = rng.pick(STEPS_OF_HOMES if is_home else STEPS_OF_NODES)
        kept_turns = rng.pick((0, 3, 3, 3))
        happenings.append(
            Happening(
                rng.between(begin_s, ASKED_UNTIL_S / 2),
                "dies-reserving",
                rng.pick(homes if is_home else nodes),
                rng.between(2.0, 60.0),
                number=RESERVING_STEPS * kept_turns + step,
            )
        )
    return happenings


def drains(rng: Rng, nodes: list[str], begin_s: float) -> list[Happening]:
    """Return nodes that are drained for long, so that reservations lose them."""
    return [
        Happening(rng.between(begin_s, ASKED_UNTIL_S), "drain", rng.pick(nodes), lasts_s)
        for lasts_s in (rng.between(5.0, 120.0) for _ in range(rng.below(4)))
    ]


def _reservation(rng: Rng, nodes: int, cpus_max: int) -> AskedReservation:
    """Return a reservation of one node or several, sometimes of more than there are."""
    return AskedReservation(
        rng.pick(USERS),
        rng.between(*rng.pick(AHEADS_S)),
        rng.between(*rng.pick(LENGTHS_S)),
        nodes=rng.pick((1, 1 + rng.below(nodes + rng.chance(0.1)))),
        cpus=rng.pick((0, 0, 1, min(2, cpus_max))),
        users=rng.pick(OTHERS),
        is_earliest=rng.chance(0.25),
        hold_s=rng.pick(HOLDS_S),
    )


def _overlapping(
    rng: Rng, reservation: AskedReservation, other: AskedReservation
) -> AskedReservation:
    """Return a reservation that is likely to need the same machines when another does."""
    return replace(
        reservation,
        user=rng.pick((reservation.user, other.user)),
        ahead_s=other.ahead_s * rng.between(0.2, 1.2),
        nodes=other.nodes,
        cpus=other.cpus,
    )


def _inside(
    rng: Rng,
    reservation: AskedReservation,
    named: ReservationId,
    cpus_max: int,
    begin_s: float,
    until_s: float,
) -> Happening:
    """Return the submission of a job into a reservation, by one who may, or not."""
    most = reservation.cpus or cpus_max
    is_parallel = rng.chance(0.2)
    ranks = 1 + rng.below(reservation.nodes)
    submission = Submission(
        reservation.user if rng.chance(0.7) else rng.pick(USERS),
        cpus=min(most, rng.pick((1, 1, 2))),
        tasks=rng.pick((1, 1, 2, 4)),
        work=Work(
            rng.pick((3.0, 10.0, 40.0, 150.0)), SUCCESS, rng.chance(0.2), rng.pick(CPU_PARTS)
        ),
        limit_s=rng.pick((None, None, 20.0, 60.0)),
        lease_s=rng.pick(LEASES_S),
        shape=RankShape(ranks, ranks) if is_parallel else ONE,
        reservation=named,
        or_queue=rng.chance(0.5),
    )
    at_s = rng.between(begin_s, until_s)
    return Happening(at_s, "submit", named.home, submission=submission)


def _fitting(happening: Happening, sizes: list[int]) -> Happening:
    """Return the same, with no more ranks than fit on machines of these sizes."""
    submission = happening.submission
    assert submission is not None
    most = max(1, sum(size // submission.cpus for size in sizes))
    if submission.shape.least <= most:
        return happening
    return replace(happening, submission=replace(submission, shape=RankShape(most, most)))


def _beside(rng: Rng, homes: list[str], cpus_max: int, at_s: float) -> Happening:
    """Return the submission of a job of long tasks, in whose way reservations are."""
    submission = Submission(
        rng.pick(USERS),
        cpus=min(cpus_max, rng.pick((1, 1, 2, 4))),
        tasks=rng.pick((1, 2)),
        work=Work(rng.pick((60.0, 120.0, 240.0)), SUCCESS, rng.chance(0.3)),
        limit_s=rng.pick((None, None, 150.0)),
        lease_s=rng.pick(LEASES_S),
    )
    return Happening(at_s, "submit", rng.pick(homes), submission=submission)
