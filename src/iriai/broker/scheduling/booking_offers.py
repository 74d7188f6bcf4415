"""Answers homes that seek nodes for a reservation (docs/spec/017, sections 4 and 7).

A machine is offered if the booking fits there beside its claims until their latest ends, other
bookings, and places that are kept for promised tasks; under `slack` these may be put off until what
was told, under `above` only other bookings count. Nothing is kept of an offer: the machines decide.
A machine opens a booking by its own clock, so what it would displace is counted by that.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from math import inf
from typing import NamedTuple

from iriai.broker.machines.beside_bookings import EARLIER_S
from iriai.broker.machines.machine_view import MachineView
from iriai.broker.reservations.bookable_rooms import (
    BookableRoom,
    latest_start_s,
    profile_above,
    profile_beside,
)
from iriai.broker.reservations.candidates import Candidate, preference
from iriai.broker.reservations.parallel_places import ParallelPlaces
from iriai.broker.reservations.share_limit import ShareLimit
from iriai.broker.scheduling.machine_reasons import (
    mismatches,
    too_large,
    unreadable,
    why_unavailable,
)
from iriai.broker.state.state import BrokerState
from iriai.model.ids import JobId, ReservationId
from iriai.model.instant import Instant
from iriai.model.problem import Refused
from iriai.model.reason import Reason, Rule
from iriai.model.reservation import LENGTH_MAX_S, LENGTH_MIN_S, ReservationTerms
from iriai.model.resources import Resources
from iriai.model.units import format_duration
from iriai.policy.placement.backfill import ReservedHead
from iriai.policy.placement.booking_search import earliest_of
from iriai.policy.placement.bookings import HeldSpan, positive
from iriai.policy.placement.calendar import OPEN_END_S
from iriai.policy.placement.pool_plan import PoolHead
from iriai.protocol.clock_offset import Estimate
from iriai.protocol.messages.effects import Part, Send
from iriai.protocol.messages.reservations import NodesOffered, SeekNodes
from iriai.protocol.messages.scheduling import Want

SEEKS_MAX = 256
"""Questions that are kept until they can be answered; homes repeat others."""
SEEKS_OF_HOME_MAX = 64
"""Of one home: others are answered though it asks without end."""
ANSWERS_MAX = 4
"""Of one turn: each looks at all machines."""
LOOKS_PER_S = 16
"""Questions of users who reserve nothing that are answered within a second, all homes together."""
REASONS_MAX = 16
STEPS_MAX = 1_000_000
"""Steps of machines' profiles that one search for the earliest start looks at after the first look
at all of them: a hostile home has them hold many bookings."""

GONE = (Rule.MACHINE_AWAY, Rule.DRAINED)
"""Why a machine that has an earlier version of a booking does not get the next one."""

ClockOf = Callable[[str], Estimate | None]
"""Returns the wall clock of a machine minus the broker's; None: it is not known."""
Planned = Callable[[float, Resources | None], dict[str, list[HeldSpan]]]
"""Returns what places a plan keeps for tasks that wait, by machine, at a time, beside a booking of
such resources (None: of a whole machine)."""


class _Found(NamedTuple):
    start_s: float
    machines: tuple[str, ...]


class BookingOffers:
    """Lives as long as the broker, from the first question on."""

    def __init__(self, state: BrokerState, planned: Planned | None, clock_of: ClockOf) -> None:
        """`planned`: of a whole plan; None: there are reserved heads instead."""
        self._state = state
        self._clock_of = clock_of
        self._planned = planned
        is_limited = state.settings.configuration.reservations.share_limit
        self._limit = ShareLimit(state) if is_limited else None
        self._seeks: dict[ReservationId, SeekNodes] = {}
        """The last of each reservation that was not answered."""
        self._looked_s: deque[float] = deque(maxlen=LOOKS_PER_S)
        """When the last of those questions were answered."""

    @property
    def are_due(self) -> bool:
        """Return whether a home waits for an answer."""
        return bool(self._seeks)

    def take(self, seek: SeekNodes) -> None:
        """Note a question; one of an older version than the last is ignored."""
        known = self._seeks.get(seek.reservation)
        if known is not None and known.version > seek.version:
            return
        if known is not None or self._has_room(seek.reservation.home):
            self._seeks[seek.reservation] = seek

    def _has_room(self, home: str) -> bool:
        of_home = sum(each.home == home for each in self._seeks)
        return len(self._seeks) < SEEKS_MAX and of_home < SEEKS_OF_HOME_MAX

    def drop_home(self, home: str) -> None:
        """Forget a home that is away; it asks again."""
        for reservation in [each for each in self._seeks if each.home == home]:
            del self._seeks[reservation]

    def answers(self, now: Instant, *, is_whole: bool) -> list[Send]:
        """Return the next answers; more may be due then.

        `is_whole`: whether all machines should be known. Else a refusal waits, and the earliest
        start: there may be more of them.
        """
        sends = []
        for seek in list(self._seeks.values())[:ANSWERS_MAX]:
            offered = self.offer(seek, now)
            if not is_whole and (seek.terms.is_earliest or not offered.machines):
                continue
            del self._seeks[seek.reservation]
            if self._limit is not None and offered.machines:
                self._limit.note(seek, offered.machines, now)
            sends.append(Send(offered.reservation.home, Part.HOME, offered))
        return sends

    def look(self, seek: SeekNodes, now: Instant) -> NodesOffered:
        """Return what would be offered to a user who only wants to know.

        Raises:
            Refused: too many have asked within a second.
        """
        looked_s = self._looked_s
        if len(looked_s) == LOOKS_PER_S and now.steady_s < looked_s[0] + 1.0:
            what = f"the broker has looked for nodes {LOOKS_PER_S} times within a second"
            raise Refused("too-many-questions", what, "ask again in a second")
        looked_s.append(now.steady_s)
        return self.offer(seek, now)

    def offer(self, seek: SeekNodes, now: Instant) -> NodesOffered:
        """Return the answer to a question, as of now."""
        asked = seek.terms.resources
        held = {} if self._planned is None else self._planned(now.steady_s, asked)
        return _Search(self._state, held, seek, now, self._clock_of, self._limit).offered()


class _Search:
    """One search."""

    def __init__(
        self,
        state: BrokerState,
        held: dict[str, list[HeldSpan]],
        seek: SeekNodes,
        now: Instant,
        clock_of: ClockOf,
        limit: ShareLimit | None,
    ) -> None:
        """`held`: what is kept for tasks that wait, by machine, beside reserved heads."""
        self._state = state
        self._limit = limit
        self._rules = state.settings.configuration.reservations
        self._seek = seek
        self._kept = frozenset(name for name in seek.kept if self._has_it(name))
        self._now = now
        terms = seek.terms
        asked_s = now.steady_s + terms.start_wall_s - now.wall_s
        self._start_s = max(now.steady_s, asked_s)
        self._length_s = terms.length_s - EARLIER_S
        """Less than that: what is booked from its end on counts as begun before."""
        if not terms.is_earliest:
            self._length_s -= self._start_s - asked_s
        self._refused: list[Reason] = []
        """Of machines that will not do at any time, or not at present."""
        self._left = STEPS_MAX
        self._put_off: dict[str, HeldSpan] = {}
        """By machine, the place of a head there if it starts as late as was told."""
        known = {name: clock_of(name) for name in state.machines}
        self._clocks = {name: clock for name, clock in known.items() if clock is not None}
        singles = (*state.heads.by_machine.values(), *state.heads.aside)
        for head in singles:
            if not isinstance(head, PoolHead):
                span = HeldSpan(head.start_s, _end_s(head), head.resources)
                held.setdefault(head.machine, []).append(span)
                if self._rules.policy == "slack":
                    self._put_it_off(head, span)
        self._held = held
        self._apart_s = 0.0
        """How much the clocks of the machines that could take it may differ from the broker's."""
        self._parallel = ParallelPlaces(state, seek.reservation, now.steady_s)

    def _has_it(self, name: str) -> bool:
        """Return whether a machine itself told that it has the reservation.

        A home may say of any machine that it has an earlier version there.
        """
        view = self._state.machines.get(name)
        return view is not None and view.calendar.has_booking(self._seek.reservation)

    def _put_it_off(self, head: ReservedHead, span: HeldSpan) -> None:
        """Note until when a head may be put off, by what its home was told."""
        view = self._state.machines.get(head.machine)
        if view is None or head.told_start_s is None:
            return
        until_s = head.told_start_s - EARLIER_S
        length_s = span.to_s - span.from_s
        start_s = latest_start_s(view.calendar.profile(), span, until_s, length_s)
        if start_s is not None:
            later = HeldSpan(start_s, start_s + length_s, span.resources)
            self._put_off[head.machine] = later

    def offered(self) -> NodesOffered:
        """Return the answer."""
        seek, terms = self._seek, self._seek.terms
        of, version = seek.reservation, seek.version
        wrong = self._wrong(terms)
        if wrong is not None:
            return NodesOffered(of, version, reasons=(wrong,))
        able = self._candidates(terms)
        found = self._at(able, self._start_s)
        if found is not None and not terms.is_earliest:
            return self._within_share(found.machines, terms.start_wall_s)
        in_the_way = [] if found else self._in_the_way(able)
        first = found or self._earliest(able)
        if first is not None and terms.is_earliest:
            return self._within_share(first.machines, self._wall_s(first.start_s))
        had = f"{len(able)} of {len(self._state.machines)} machines could give one"
        if first is None:
            had += f"; no start within {format_duration(self._rules.horizon_s)} is known"
        nodes = "1 machine" if terms.nodes == 1 else f"{terms.nodes} machines at once"
        few = Reason(Rule.MACHINE_BUSY, nodes, had)
        reasons = (few, *self._refused, *in_the_way)[:REASONS_MAX]
        earliest_wall_s = None if first is None else self._wall_s(first.start_s)
        return NodesOffered(of, version, reasons=reasons, earliest_wall_s=earliest_wall_s)

    def _within_share(self, machines: tuple[str, ...], start_wall_s: float) -> NodesOffered:
        """Return an offer, or that it is more than the share of its account."""
        seek = self._seek
        limit = self._limit
        over = None if limit is None else limit.over(seek, machines, self._now)
        if over is not None:
            return NodesOffered(seek.reservation, seek.version, reasons=(over,))
        return NodesOffered(seek.reservation, seek.version, machines, start_wall_s)

    def _wrong(self, terms: ReservationTerms) -> Reason | None:
        """Return why no machine can be had for these terms; None: they are sound."""
        if not LENGTH_MIN_S <= terms.length_s <= LENGTH_MAX_S:
            had = f"it has {terms.length_s:.0f} s"
            needed = f"a time of {LENGTH_MIN_S:.0f} to {LENGTH_MAX_S:.0f} s"
            return Reason(Rule.RESERVED_AHEAD, needed, had)
        if self._length_s <= 0.0:
            return Reason(Rule.RESERVED_AHEAD, "a time that is not over", "it has ended")
        problem = self._state.matching.problem_of(self._want(terms))
        return unreadable(problem) if problem else None

    def _want(self, terms: ReservationTerms) -> Want:
        """Return a request as of a job that takes all of it."""
        job = JobId(self._seek.reservation.home, self._seek.reservation.number)
        return Want(
            job,
            terms.account,
            terms.resources or Resources(),
            terms.length_s,
            1.0,
            0.0,
            1,
            requirements=terms.requirements,
            user=terms.user,
        )

    def _candidates(self, terms: ReservationTerms) -> list[Candidate]:
        """Return the machines that could take a booking at some time, by name."""
        state = self._state
        large: list[MachineView] = []
        small: list[Reason] = []
        without = frozenset(self._seek.without)
        for _, view in sorted(state.machines.items()):
            if view.name in without:
                continue
            need = terms.resources or view.calendar.capacity
            if need.fits_in(view.calendar.capacity) and need.cpus > 0:
                large.append(view)
            else:
                small.append(too_large(need, view) if need.cpus > 0 else _without_cpus(view))
        matching, other = self._matching(terms, large)
        found, unavailable = [], []
        for view in matching:
            clock = self._clocks.get(view.name)
            need, capacity = terms.resources or view.calendar.capacity, view.calendar.capacity
            reason = (
                self._unavailable(view)
                or _clock_off(view.name, clock, self._rules.clock_offset_max_s)
                or view.reservable.refusal(terms.user, terms.account, need, capacity, view.name)
            )
            if reason is not None:
                unavailable.append(reason)
                continue
            found.append(Candidate(view, need, *self._rooms(view)))
            if clock is not None:
                self._apart_s = max(self._apart_s, abs(clock.offset_s) + clock.error_s)
        self._refused = [*small, *other, *unavailable]
        return found

    def _rooms(self, view: MachineView) -> tuple[BookableRoom, BookableRoom]:
        """Return where a booking may be on a machine, and where nothing gives way to it."""
        held = self._held.get(view.name, ())
        own = self._seek.reservation if view.name in self._kept else None
        ahead_s, error_s = self._clocks.get(view.name, Estimate(0.0, 0.0))
        away_s = EARLIER_S + error_s
        profile = profile_beside(view, held, away_s, own)
        beside = BookableRoom((profile,), ahead_s)
        if self._rules.policy == "above":
            return BookableRoom((profile_above(view, own),), ahead_s), beside
        if view.name in self._put_off and len(held) == 1:
            later = profile_beside(view, [self._put_off[view.name]], away_s, own)
            # Over before a place that is put off, or begun after one that stays. Where both have
            # room at once a booking may fit beside neither, and beside some place between them.
            return BookableRoom((profile, later), ahead_s), beside
        return beside, beside

    def _unavailable(self, view: MachineView) -> Reason | None:
        """Return why a machine cannot be had at present; None: it can.

        What keeps tasks from starting on it for a while keeps no booking away that it has.
        """
        reason = why_unavailable(view, self._now)
        if reason is not None and reason.rule not in GONE and view.name in self._kept:
            return None
        return reason

    def _matching(
        self, terms: ReservationTerms, views: list[MachineView]
    ) -> tuple[list[MachineView], list[Reason]]:
        """Return the machines that the requirements and their owners admit, and why others not."""
        state, want = self._state, self._want(terms)
        excluded = state.exclusions.of(want)
        turned = [
            Reason(
                Rule.USER_NOT_ALLOWED,
                f"permission for tasks of {terms.user}",
                "the machine does not give it",
                view.name,
            )
            for view in views
            if view.name in excluded
        ]
        views = [view for view in views if view.name not in excluded]
        key = state.matching.key(want)
        if key is None:
            return views, turned
        demand = state.matching.begin().demand(key).enter()
        try:
            able = [view for view in views if demand.may_admit(view.name)]
            unable = (view for view in views if not demand.may_admit(view.name))
            return able, [*(mismatches(state, demand, view)[0] for view in unable), *turned]
        finally:
            demand.leave()

    def _at(self, candidates: Sequence[Candidate], start_s: float) -> _Found | None:
        """Return the machines for that start; None: there are not enough."""
        nodes, end_s = self._seek.terms.nodes, start_s + self._length_s
        able = [each for each in candidates if each.room.is_room(each.need, start_s, end_s)]
        if len(able) < nodes:
            return None
        able.sort(key=preference(start_s, end_s, self._kept))
        chosen: Sequence[Candidate] | None = able[:nodes]
        if self._rules.policy != "above":
            from_s, to_s = start_s - self._apart_s, end_s + self._apart_s
            if start_s <= self._start_s:  # otherwise it is asked for a second later than that
                from_s -= EARLIER_S
            taken = [(each, self._more(each, start_s, end_s)) for each in able]
            chosen = self._parallel.choose(taken, nodes, from_s, to_s)
        if chosen is None:
            return None
        return _Found(start_s, tuple(sorted(each.view.name for each in chosen)))

    def _more(self, candidate: Candidate, start_s: float, end_s: float) -> Resources:
        """Return what a booking takes beyond an earlier version that covers its time."""
        if candidate.view.name not in self._kept:
            return candidate.need
        for own in candidate.view.calendar.bookings:
            is_own = own.reservation == self._seek.reservation and not own.is_beside
            if is_own and own.from_s <= start_s and end_s <= own.end_s:
                return positive(candidate.need.minus(own.resources))
        return candidate.need

    def _earliest(self, candidates: Sequence[Candidate]) -> _Found | None:
        """Return the first start at which there are enough, within the horizon.

        It keeps away from what is before and after: a machine may know the times of these by a
        little earlier or later; what comes after counts as begun earlier anyway.
        """
        nodes, length_s = self._seek.terms.nodes, self._seek.terms.length_s + EARLIER_S
        start_s = self._start_s
        until_s = self._now.steady_s + self._rules.horizon_s - EARLIER_S
        self._length_s = length_s
        rooms = {each.view.name: each for each in candidates}

        def run_from(name: str, from_s: float) -> tuple[float, float] | None:
            return rooms[name].room.run_from(rooms[name].need, length_s, from_s)

        steps = sum(each.room.steps for each in candidates)
        while self._left > 0:
            self._left -= steps
            first = earliest_of(list(rooms), nodes, run_from, length_s, start_s, until_s)
            if first is None:
                return None
            found = self._at(candidates, first[0])
            if found is not None:
                is_asked = first[0] <= self._start_s
                return found if is_asked else found._replace(start_s=first[0] + EARLIER_S)
            start_s = self._next_s(candidates, first[0])
        return None

    def _next_s(self, candidates: Sequence[Candidate], start_s: float) -> float:
        """Return the next moment at which places of parallel heads end, or room changes."""
        ends = (each + self._apart_s for each in self._parallel.ends_s())
        times = (time_s for each in candidates for time_s in each.room.times())
        return min((each for each in (*ends, *times) if each > start_s), default=inf)

    def _in_the_way(self, candidates: Sequence[Candidate]) -> list[Reason]:
        """Return why machines do not do for the start that was asked for."""
        start_s, end_s = self._start_s, self._start_s + self._length_s
        busy, reserved = [], []
        for each in candidates:
            if each.room.is_room(each.need, start_s, end_s):
                continue
            name, bookings = each.view.name, [*each.view.calendar.bookings]
            latest_s = start_s + OPEN_END_S / 2  # what begins later waits for tasks without limits
            run = each.room.run_from(each.need, self._length_s, start_s)
            had = "it is not free for so long in any time that is known"
            if run is not None and run[0] <= latest_s:
                in_s = run[0] - self._now.steady_s
                had = f"it is free for so long in {format_duration(in_s)}"
            own = self._seek.reservation if name in self._kept else None
            bookings = [booked for booked in bookings if booked.reservation != own]
            others = [booked for booked in bookings if booked.from_s < end_s]
            others = [booked for booked in others if booked.end_s > start_s]
            if others:
                had = f"{others[0].reservation} has it; {had}"
                reserved.append(Reason(Rule.RESERVED_AHEAD, "another time", had, name))
            elif name in self._held:
                had = f"a place is kept there for a task that was promised it; {had}"
                reserved.append(Reason(Rule.RESERVED_HEAD_AHEAD, "another time", had, name))
            else:
                had = f"tasks there may last longer; {had}"
                busy.append(Reason(Rule.MACHINE_BUSY, "another time", had, name))
        return [*busy, *reserved]

    def _wall_s(self, steady_s: float) -> float:
        return self._now.wall_s + steady_s - self._now.steady_s


def _clock_off(machine: str, clock: Estimate | None, most_s: float) -> Reason | None:
    """Return why a machine keeps no bookings by its clock; None: it does, as far as known."""
    if clock is None or abs(clock.offset_s) - clock.error_s <= most_s:
        return None
    direction = "ahead of" if clock.offset_s > 0 else "behind"
    needed = f"a clock within {most_s:g} s of the broker's"
    off = format_duration(abs(clock.offset_s))
    had = f"it is {off} {direction} that; set the one that is wrong"
    return Reason(Rule.NOT_RESERVED, needed, had, machine)


def _end_s(head: ReservedHead) -> float:
    return head.start_s + (inf if head.stay_s is None else head.stay_s)


def _without_cpus(view: MachineView) -> Reason:
    return Reason(Rule.NO_MACHINE_LARGE_ENOUGH, "a cpu", "the machine gives none", view.name)
