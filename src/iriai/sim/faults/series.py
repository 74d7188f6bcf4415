"""Series of reservations in a scenario: some of those that users ask for are repeated.

docs/spec/017, section 12, has the rules.
"""

from __future__ import annotations

from dataclasses import replace

from msgspec.structs import replace as with_fields

from iriai.model.ids import ReservationId, occurrence_number
from iriai.sim.faults.actions import Happening
from iriai.sim.faults.user_requests import AskedReservation
from iriai.sim.world.machine_model import MachinePlan
from iriai.sim.world.repeated_times import rule_of
from iriai.sim.world.rng import Rng

SERIES_CHANCE = 0.4
"""That a reservation of a scenario is repeated."""
PAUSES_S = ((20.0, 60.0), (60.0, 200.0), (200.0, 300.0))
COUNTS = (1, 2, 3, 4)
HORIZONS_S = (14 * 86_400.0, 250.0)
"""The short one is beyond what is asked for, and not beyond what is repeated."""


def with_horizon(rng: Rng, plans: list[MachinePlan]) -> list[MachinePlan]:
    """Return the machines; their homes may see the next occurrences only."""
    horizon_s = rng.pick(HORIZONS_S)
    changed = []
    for plan in plans:
        section = with_fields(plan.configuration.reservations, horizon_s=horizon_s)
        configuration = with_fields(plan.configuration, reservations=section)
        changed.append(replace(plan, configuration=configuration))
    return changed


def with_series(rng: Rng, happenings: list[Happening]) -> list[Happening]:
    """Return the same; some reservations are repeated, and what is in them is in an occurrence."""
    counts: dict[str, int] = {}
    repeated: dict[ReservationId, int] = {}
    changed = []
    for each in happenings:
        if isinstance(each.asked, AskedReservation):
            number = counts[each.machine] = counts.get(each.machine, 0) + 1
            if rng.chance(SERIES_CHANCE):
                asked = _repeated(rng, each.asked)
                repeated[ReservationId(each.machine, number)] = asked.count
                changed.append(replace(each, asked=asked))
                continue
        changed.append(each)
    return [_in_occurrence(rng, each, repeated) for each in changed]


def _repeated(rng: Rng, asked: AskedReservation) -> AskedReservation:
    count = rng.pick(COUNTS)
    left_out = 2 + rng.below(count) if rng.chance(0.2) else 0
    rule = rule_of(round(rng.between(*rng.pick(PAUSES_S)), 3), count, left_out)
    return replace(asked, every=rule, count=count, is_earliest=False)


def _in_occurrence(rng: Rng, each: Happening, repeated: dict[ReservationId, int]) -> Happening:
    """Return what happens to a series, to one of its occurrences or to all of it."""
    submission = each.submission
    if submission is not None and submission.reservation in repeated:
        count = repeated[submission.reservation]
        named = _occurrence(rng, submission.reservation, count)
        return replace(each, submission=replace(submission, reservation=named))
    if each.kind in ("cancel-reservation", "end-reservation", "modify-reservation"):
        named = ReservationId(each.machine, each.number)
        if named in repeated and rng.chance(0.6):
            return replace(each, number=_occurrence(rng, named, repeated[named]).number)
    return each


def _occurrence(rng: Rng, series: ReservationId, count: int) -> ReservationId:
    place = 1 + rng.below(count)
    return ReservationId(series.home, occurrence_number(series.number, place))
