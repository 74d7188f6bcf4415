"""The series of a home: each occurrence is a reservation, made when the horizon reaches it.

An occurrence is made in the turn in which its number is used up, so once (docs/spec/017, section
12). One series has one occurrence at a time that is not decided: they do not stand in each other's
way, and a home that was away for long asks for the next after the last was answered.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from math import inf

from msgspec.structs import replace

from iriai.home.reservations.negotiation import Negotiation
from iriai.home.reservations.occurrence import Expand, Occurrence
from iriai.home.reservations.stored_reservations import StoredReservations
from iriai.model.ids import OCCURRENCES_MAX, occurrence_number, series_of
from iriai.model.instant import Instant
from iriai.model.problem import UsageProblem
from iriai.model.reason import Reason, Rule
from iriai.model.reservation import (
    Repetition,
    Reservation,
    ReservationEnd,
    ReservationState,
    ReservationTerms,
    terms_problem,
)
from iriai.model.reservation_news import Notification

UNDECIDED = (ReservationState.SEEKING, ReservationState.DECIDING)
REFUSED_AT_ONCE_MAX = 16
"""Occurrences of one series that cannot be had, in one turn."""


@dataclass(slots=True)
class _Run:
    """How far a series is, of this process."""

    rest: Iterator[Occurrence]
    following: Occurrence | None
    """The next occurrence; None: there is none."""
    due_wall_s: float = inf
    """When there is something to do for it."""


class RepeatedReservations:
    """Makes the occurrences of the series that are not over."""

    def __init__(
        self, stored: StoredReservations, negotiation: Negotiation, expand: Expand
    ) -> None:
        self._stored = stored
        self._negotiation = negotiation
        self._expand = expand
        self._runs: dict[int, _Run] = {}
        """By number of the series."""
        self._undecided: dict[int, None] = {}
        """The series whose last occurrence is not decided."""
        self._next_wall_s = inf
        for number, reservation in stored.by_number.items():
            if reservation.state is ReservationState.REPEATING:
                self._begin(number, reservation)

    def ask(
        self,
        terms: ReservationTerms,
        repetition: Repetition,
        now: Instant,
        notification: Notification | None,
    ) -> int:
        """Begin a series; return its number.

        Raises:
            UsageProblem: the rule has no occurrence, or the local time of the first is none.
        """
        terms, _ = self.plan(terms, repetition.rule, repetition.zone, 1)
        number = self._stored.new_number()
        series = Reservation(
            number,
            1,
            terms,
            ReservationState.REPEATING,
            asked_wall_s=now.wall_s,
            repetition=repetition,
            notification=notification,
        )
        self._stored.store(series)
        self._begin(number, series)
        self._go_on(number, now)
        return number

    def plan(
        self, terms: ReservationTerms, rule: str, zone: str, count: int
    ) -> tuple[ReservationTerms, list[float]]:
        """Return the terms of the first occurrence, and when the first `count` would begin.

        Raises as `ask`.
        """
        found = self._expand(rule, zone, terms.start_wall_s)
        times = list(islice(found, count))
        if not times:
            hint = "give a rule that has a day in the next eight years"
            raise UsageProblem("bad-rule", f"--every: {rule} never happens", hint)
        if times[0].problem:
            hint = "choose another time of day, or a later start"
            raise UsageProblem("bad-time", f"the first occurrence: {times[0].problem}", hint)
        start_wall_s = times[0].start_wall_s
        end_wall_s = start_wall_s + terms.length_s
        first = replace(terms, start_wall_s=start_wall_s, end_wall_s=end_wall_s)
        return first, [each.start_wall_s for each in times]

    def cancel(self, series: Reservation, by: str, now: Instant) -> None:
        """End a series, and its occurrences that are not over."""
        number = series.number
        for each in [*self._stored.by_number.values()]:
            if series_of(each.number) == number and not each.is_over:
                self._negotiation.give_back(each.number, ReservationEnd.CANCELLED, by, now)
        self._forget(number)

    def following(self, number: int, count: int) -> list[float]:
        """Return when the next occurrences begin that were not made yet."""
        series = self._stored.by_number[number]
        if number not in self._runs or series.repetition is None:
            return []
        made, terms = series.repetition.made, series.terms
        found = self._expand(series.repetition.rule, series.repetition.zone, terms.start_wall_s)
        return [each.start_wall_s for each in islice(found, made, made + count)]

    def settle(self, now: Instant) -> None:
        """Make what the horizon has reached."""
        if not self._undecided and now.wall_s < self._next_wall_s:
            return
        for number in [*self._runs]:
            if number in self._undecided or self._runs[number].due_wall_s <= now.wall_s:
                self._go_on(number, now)
        self._next_wall_s = min((each.due_wall_s for each in self._runs.values()), default=inf)

    @property
    def next_wall_s(self) -> float:
        """When `settle` has something to do, by the wall clock; inf: never."""
        return self._next_wall_s

    def check(self) -> None:
        """Raise if a series is forgotten, or goes on after its end."""
        for number, each in self._stored.by_number.items():
            is_live = each.state is ReservationState.REPEATING
            assert is_live is (number in self._runs), f"the series {number} is forgotten"
            assert not (is_live and (each.nodes or each.is_occurrence))

    # --- steps -----------------------------------------------------------------------------------

    def _begin(self, number: int, series: Reservation) -> None:
        """Go on with a series after the occurrences that were made."""
        repetition = series.repetition
        assert repetition is not None, "a series has a rule"
        try:
            found = self._expand(repetition.rule, repetition.zone, series.terms.start_wall_s)
        except UsageProblem:  # the zone is not known here any more: nothing more is made
            found = iter(())
        rest = islice(found, repetition.made, OCCURRENCES_MAX)
        self._runs[number] = _Run(rest, next(rest, None), -inf)
        self._next_wall_s = -inf

    def _forget(self, number: int) -> None:
        self._runs.pop(number, None)
        self._undecided.pop(number, None)

    def _go_on(self, number: int, now: Instant) -> None:
        """Make the next occurrences of a series, or end it."""
        run = self._runs[number]
        self._undecided.pop(number, None)
        for _ in range(REFUSED_AT_ONCE_MAX):
            last = self._last(number)
            if last is not None and last.state in UNDECIDED:
                self._undecided[number] = None
                run.due_wall_s = inf
                break
            if run.following is None:
                self._end(number, last, now)
                break
            run.due_wall_s = run.following.start_wall_s - self._stored.limits.horizon_s
            if run.due_wall_s > now.wall_s:
                break
            self._make(number, run.following, now)
            run.following = next(run.rest, None)
        self._next_wall_s = min(self._next_wall_s, run.due_wall_s)

    def _end(self, number: int, last: Reservation | None, now: Instant) -> None:
        """End a series that has no more occurrences, once the last is over."""
        if last is not None and not last.is_over:
            self._runs[number].due_wall_s = last.terms.end_wall_s
            return
        self._forget(number)
        self._negotiation.give_back(number, ReservationEnd.ENDED, "", now)

    def _last(self, number: int) -> Reservation | None:
        """Return the occurrence that was made last; None: there was none, or it is forgotten."""
        repetition = self._stored.by_number[number].repetition
        made = 0 if repetition is None else repetition.made
        return self._stored.by_number.get(occurrence_number(number, made)) if made else None

    def _make(self, number: int, occurrence: Occurrence, now: Instant) -> None:
        """Seek nodes for an occurrence; or store why there is none, and that its number is used."""
        series = self._stored.by_number[number]
        assert series.repetition is not None, "a series has a rule"
        place = series.repetition.made + 1
        self._stored.store(replace(series, repetition=replace(series.repetition, made=place)))
        start_wall_s = occurrence.start_wall_s
        end_wall_s = start_wall_s + series.terms.length_s
        terms = replace(series.terms, start_wall_s=start_wall_s, end_wall_s=end_wall_s)
        made = Reservation(
            occurrence_number(number, place),
            1,
            terms,
            asked_wall_s=now.wall_s,
            notification=series.notification,
        )
        reasons = tuple(self._problems(terms, occurrence, now))
        if reasons:
            self._negotiation.refuse_at_once(made, reasons, now)
        else:
            self._stored.store(made)
            self._negotiation.begin(made.number, now)

    def _problems(
        self, terms: ReservationTerms, occurrence: Occurrence, now: Instant
    ) -> Iterable[Reason]:
        """Yield why an occurrence cannot be, before anybody is asked."""
        if occurrence.problem:
            yield Reason(Rule.NOT_RESERVED, "a local time that there is, once", occurrence.problem)
            return
        problem = terms_problem(terms, now.wall_s, inf)
        if problem is not None:
            yield Reason(Rule.NOT_RESERVED, problem.hint, problem.message)
