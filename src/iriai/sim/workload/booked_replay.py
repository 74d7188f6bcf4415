"""Reservations in a replay: the broker's own search, and bookings in the calendars of its machines.

At one instant those that are over end, and those that begin open, after the jobs that end; new ones
are asked for, one after the other, after the pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import inf

from iriai.broker.intake.booked_times import take_bookings
from iriai.broker.machines.machine_view import ClaimKey, MachineView
from iriai.broker.scheduling.booking_offers import BookingOffers, Planned
from iriai.broker.state.state import BrokerState
from iriai.model.ids import ReservationId
from iriai.model.instant import Instant
from iriai.model.reservation import terms_problem
from iriai.model.resources import Resources
from iriai.node.metering import SLICE_S
from iriai.protocol.messages.reservations import BookedTime, NodesOffered, SeekNodes
from iriai.protocol.messages.scheduling import Promise
from iriai.sim.workload.charging import SlicedCharges
from iriai.sim.workload.log import Log, LogReservation
from iriai.sim.workload.reservations import (
    LATE_S,
    ReservationOutcome,
    ToldPromises,
    terms_of,
)

HOME = "log"
Judge = Callable[[BrokerState, SeekNodes, NodesOffered, Instant], None]
"""Called with each answer of the broker, before anything is booked."""


@dataclass(slots=True)
class _Kept:
    """A reservation that was accepted and is not over."""

    asked: LogReservation
    id: ReservationId
    views: tuple[MachineView, ...]
    resources: Resources | None
    """Of each machine; None: all that it has."""
    is_open: bool = False
    is_late: bool = False
    charged_s: float = 0.0
    """Until when its account has been charged, once it is open."""


class BookedReplay:
    """The reservations of one replay. Times are those of the log."""

    def __init__(
        self,
        log: Log,
        state: BrokerState,
        planned: Planned | None,
        bills: Mapping[str, SlicedCharges],
        judge: Judge | None,
        evict: Callable[[ClaimKey, float], None],
    ) -> None:
        """`planned`: of a policy that plans all starts; `bills`: of an order of accounts.

        `evict` ends the job that has a claim, which waits again.
        """
        self.promises = ToldPromises()
        self._outcomes: list[ReservationOutcome] = []
        self._judge = judge
        self._evict = evict
        self._log = log
        self._state = state
        self._bills = bills
        self._limits = state.settings.configuration.reservations
        self._offers = BookingOffers(state, planned, lambda _: None)
        self._next = 0
        """The place of the next that is asked for."""
        self._kept: dict[ReservationId, _Kept] = {}

    @property
    def outcomes(self) -> list[ReservationOutcome]:
        """Return what became of each, in the order in which they were asked for."""
        return sorted(self._outcomes, key=lambda each: each.reservation.number)

    def told(self, promises: Iterable[Promise], now_s: float) -> None:
        """Note what homes are told of starts."""
        for promise in promises:
            in_s = promise.start_in_s
            self.promises.told(promise.job.number, None if in_s is None else now_s + in_s)

    def next_s(self, now_s: float) -> float:
        """Return when something happens next, later than now; infinite: never."""
        asked = self._log.reservations[self._next : self._next + 1]
        times = [each.asked_s for each in asked]
        for kept in self._kept.values():
            times.append(kept.asked.end_s if kept.is_open else kept.asked.start_s)
            if not kept.is_open:  # it is late
                times += [kept.asked.start_s + LATE_S, kept.asked.end_s]
        return min((each for each in times if each > now_s), default=inf)

    def begin_turn(self, now: Instant) -> bool:
        """End what is over and open what begins, once the jobs that end have; return if any did."""
        if not self._kept:
            return False
        now_s, touched = now.steady_s, dict[str, MachineView]()
        for kept in list(self._kept.values()):
            if kept.is_open:
                self._charge(kept, now_s)
            if kept.asked.end_s <= now_s:
                del self._kept[kept.id]
                self._outcomes.append(ReservationOutcome(kept.asked, True, is_late=kept.is_late))
                touched.update((view.name, view) for view in kept.views)
        self._tell(touched, now)
        has_opened = [self._open(kept, now) for kept in self._kept.values()]
        return bool(touched) or any(has_opened)

    def is_due(self, now_s: float) -> bool:
        """Return whether one is to be asked for now."""
        reservations = self._log.reservations
        return self._next < len(reservations) and reservations[self._next].asked_s <= now_s

    def ask(self, now: Instant) -> bool:
        """Ask for the next; return whether it is booked now."""
        asked = self._log.reservations[self._next]
        self._next += 1
        terms = terms_of(asked, self._log, len(self._state.machines))
        account = asked.account
        of_account = sum(kept.asked.account == account for kept in self._kept.values())
        is_over_limit = of_account >= self._limits.count_max
        if is_over_limit or terms_problem(terms, now.wall_s, self._limits.horizon_s) is not None:
            self._outcomes.append(ReservationOutcome(asked, False))
            return False
        named = ReservationId(HOME, asked.number)
        seek = SeekNodes(named, 1, terms)
        offered = self._offers.offer(seek, now)
        if self._judge is not None:
            self._judge(self._state, seek, offered, now)
        if not offered.machines:
            wall_s = offered.earliest_wall_s
            earliest_s = None if wall_s is None else wall_s - self._log.began_wall_s
            self._outcomes.append(ReservationOutcome(asked, False, earliest_s))
            return False
        views = tuple(self._state.machines[name] for name in offered.machines)
        kept = self._kept[named] = _Kept(asked, named, views, terms.resources)
        self._tell({view.name: view for view in views}, now)
        self._open(kept, now)
        return True

    def _open(self, kept: _Kept, now: Instant) -> bool:
        """Open one that has begun, if its resources are free; return whether it does."""
        now_s, start_s = now.steady_s, kept.asked.start_s
        if kept.is_open or start_s > now_s:
            return False
        kept.is_late = kept.is_late or now_s >= start_s + LATE_S
        views = kept.views
        if self._limits.policy == "above":
            self._clear_for(kept, now_s)
        free = ((kept.resources or v.calendar.capacity).fits_in(v.calendar.free) for v in views)
        if not all(free):
            return False
        kept.is_open, kept.charged_s = True, now_s
        self._tell({view.name: view for view in views}, now)
        return True

    def _clear_for(self, kept: _Kept, now_s: float) -> None:
        """Evict what is in the way of one that begins, as its machines do."""
        for view in kept.views:
            spans = (each for each in view.calendar.bookings if each.reservation == kept.id)
            for span in spans:
                for key in view.calendar.in_the_way(span):
                    self._evict(key, now_s)

    def _tell(self, views: Mapping[str, MachineView], now: Instant) -> None:
        """Let the broker hear of all bookings of these machines, as they would tell them."""
        for view in views.values():
            there = [kept for kept in self._kept.values() if view in kept.views]
            told = tuple(_time_of(kept, view, now.steady_s) for kept in there)
            take_bookings(self._state, view, told, now)
            self._state.index.grew(view)

    def _charge(self, kept: _Kept, now_s: float) -> None:
        """Charge the account for what nobody uses, in slices as a machine would, and at the end."""
        until_s = min(now_s, kept.asked.end_s)
        if until_s < kept.asked.end_s:
            until_s -= (until_s - kept.charged_s) % SLICE_S
        if until_s > kept.charged_s:
            factor = self._limits.unused_factor
            for view in kept.views:
                bill = self._bills.get(view.name)
                if bill is not None:
                    unused = kept.resources or view.calendar.capacity
                    spent_s = until_s - kept.charged_s
                    bill.unused(kept.asked.account, unused, spent_s, factor, until_s)
            kept.charged_s = until_s


def _time_of(kept: _Kept, view: MachineView, now_s: float) -> BookedTime:
    resources = kept.resources or view.calendar.capacity
    return BookedTime(
        kept.id,
        resources,
        max(0.0, kept.asked.start_s - now_s),
        kept.asked.end_s - now_s,
        resources if kept.is_open else None,
        kept.asked.account,
    )
