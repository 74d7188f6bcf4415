"""When the owner of a simulated machine uses it, by day and hour.

A week has days on which the owner comes, each with an hour of coming and one of leaving, a break in
the middle, and short absences at any time between. Measured machines of this kind, 169 PCs of
classrooms over 77 days: P. Domingues, P. Marques, L. Silva, Resource usage of Windows computer
laboratories, ICPP Workshops 2005: 97.9 % of all CPU time was idle.
"""

from __future__ import annotations

from typing import NamedTuple

from iriai.sim.world.rng import Rng

HOUR_S, DAY_S = 3_600.0, 86_400.0
WORKDAYS = 5
"""From the first day of a week on."""
USED_PART, UNUSED_PART = 0.115, 0.003
"""Of the CPU: what runs for an owner who is there, and what runs for nobody."""


class Span(NamedTuple):
    """A time in which the owner uses the machine."""

    begin_s: float
    end_s: float


class OwnerHabits(NamedTuple):
    """Of one owner; hours are those of a day."""

    comes_h: float
    stays_h: float
    workday_chance: float = 0.86
    """That the owner comes on a workday."""
    weekend_chance: float = 0.05
    absences: int = 5
    """Short ones in a whole day, beside the break."""
    absent_s: float = 1_200.0
    """The mean of these."""
    break_s: float = 2_700.0


def habits_of(rng: Rng) -> OwnerHabits:
    """Return the habits of one of many owners."""
    return OwnerHabits(rng.between(7.5, 10.5), rng.between(7.5, 9.0))


def visits_of(rng: Rng, habits: OwnerHabits, days: int) -> list[Span]:
    """Return when an owner uses the machine in so many days, of which the first begins a week."""
    spans: list[Span] = []
    for day in range(days):
        is_workday = day % 7 < WORKDAYS
        if rng.chance(habits.workday_chance if is_workday else habits.weekend_chance):
            spans += _day(rng, habits, day * DAY_S)
    return _apart(spans)


def _day(rng: Rng, habits: OwnerHabits, midnight_s: float) -> list[Span]:
    """Return the spans of one day: from coming to leaving, without absences."""
    came_s = midnight_s + (habits.comes_h + rng.between(-0.75, 0.75)) * HOUR_S
    left_s = came_s + (habits.stays_h + rng.between(-1.0, 1.0)) * HOUR_S
    noon_s = (came_s + left_s) / 2 + rng.between(-1.0, 1.0) * HOUR_S
    gone = [Span(noon_s, noon_s + habits.break_s * rng.between(0.6, 1.4))]
    for _ in range(habits.absences):
        begin_s = rng.between(came_s, left_s)
        gone.append(Span(begin_s, begin_s + rng.exponential(habits.absent_s)))
    spans, here_s = [], came_s
    for begin_s, end_s in sorted(gone):
        if here_s < begin_s < left_s:
            spans.append(Span(here_s, begin_s))
        here_s = max(here_s, end_s)
    if here_s < left_s:
        spans.append(Span(here_s, left_s))
    return spans


def _apart(spans: list[Span]) -> list[Span]:
    """Return spans in order, those that overlap as one."""
    joined: list[Span] = []
    for span in sorted(spans):
        if joined and span.begin_s <= joined[-1].end_s:
            joined[-1] = Span(joined[-1].begin_s, max(joined[-1].end_s, span.end_s))
        else:
            joined.append(span)
    return joined
