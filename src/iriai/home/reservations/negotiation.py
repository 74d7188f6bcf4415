"""How a home and nodes come to agree on a reservation, and how nodes free it (docs/spec/017).

All nodes of a reservation have it, or none does. The home stores which machines it asks before it
asks them, and that it decided before it lets them confirm: so it can free what it left behind, and
goes on with what was decided.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from random import Random
from typing import Protocol

from msgspec.structs import replace

from iriai.home.reservations.exchange import SEEK_S, Exchange
from iriai.home.reservations.stored_reservations import StoredVersions
from iriai.model.claim import Phase
from iriai.model.ids import ReservationId
from iriai.model.instant import Instant
from iriai.model.problem import Problem
from iriai.model.reason import Reason, Rule
from iriai.model.reservation import (
    NODES_MAX,
    REASONS_KEPT_MAX,
    TRIES_MAX,
    Booking,
    Reservation,
    ReservationEnd,
    ReservationState,
    ReservationTerms,
    terms_problem,
)
from iriai.protocol.messages.effects import Effect, Part, ReservationAnswered, Send
from iriai.protocol.messages.reservations import (
    Book,
    Booked,
    NodesOffered,
    NotBooked,
    ReservationToHome,
    ReservationToNode,
    SeekNodes,
    Unbook,
)

PAUSE_MIN_S = 0.1
"""Before another try: what was held is free by then, and the broker has heard of it."""
PAUSE_MAX_S = 1.0
"""Before another try: two homes that stood in each other's way do not meet again."""
REASONS_MAX = 64
"""Reasons in one answer."""
NAMED_MAX = 8
"""Machines that a reason names."""

_SEEKING, _DECIDING = ReservationState.SEEKING, ReservationState.DECIDING
_CONFIRMED, _OPEN = ReservationState.CONFIRMED, ReservationState.OPEN
_OVER = ReservationState.OVER


class Changes(Protocol):
    """The versions that are sought beside reservations."""

    def withdrawn(
        self, reservation: Reservation, *, is_freed: bool
    ) -> tuple[Reservation, tuple[str, ...]]:
        """Return one that is about to be over, without its next version, and who may have that."""


class Negotiation:
    """What is under way between a home, the broker and nodes for its reservations."""

    is_of_changes = False
    """Whether it is about later versions of reservations that stand."""

    def __init__(self, stored: StoredVersions, effects: list[Effect], rng: Random | None) -> None:
        self._stored = stored
        self._effects = effects
        self._rng = rng
        self._exchanges: dict[int, Exchange] = {}
        """What is under way, by number."""
        self.ended: list[int] = []
        """Those that are over since their jobs were last told; the caller clears it."""
        self.changes: Changes | None = None
        """The later versions of these reservations."""

    def begin(self, number: int, now: Instant) -> None:
        """Seek nodes for a reservation that was asked for."""
        terms = self._stored.by_number[number].terms
        self._exchanges[number] = Exchange(terms, is_awaited=True)
        self._seek(number, now)

    def refuse_at_once(
        self, reservation: Reservation, reasons: tuple[Reason, ...], now: Instant
    ) -> None:
        """Store an occurrence that cannot be, before anybody was asked."""
        self._refuse(reservation, reasons, None, now)

    def give_back(self, number: int, end: ReservationEnd, by: str, now: Instant) -> None:
        """End one that is not over, as its user asked, and have its nodes free it."""
        reservation = self._stored.by_number[number]
        self._answer_refused(number, cancelled(by), None)
        self._over(replace(reservation, by=by), end, reservation.nodes, now)

    def time_over(self, reservation: Reservation, now: Instant) -> None:
        """End one whose time is over; its nodes end by themselves what they confirmed.

        It is not over yet if its nodes are about to confirm a version that lasts longer.
        """
        later = reservation.next
        if later is not None and later.state is _DECIDING and later.terms.end_wall_s > now.wall_s:
            return
        if reservation.state is _OPEN:
            self._over(reservation, ReservationEnd.ENDED, (), now)
            return
        had = "its time was over before all its nodes had it"
        reason = Reason(Rule.NOT_RESERVED, "a reservation that is confirmed", had)
        self._refuse(reservation, (reason,), None, now)

    def forget(self, numbers: Iterable[int]) -> None:
        """Forget those of which nothing is stored any more."""
        for number in numbers:
            self._exchanges.pop(number, None)

    # --- messages --------------------------------------------------------------------------------

    def take(self, message: ReservationToHome, now: Instant) -> None:
        """Handle a message; one that was repeated, is late or is not expected changes nothing."""
        match message:
            case NodesOffered():
                self._offered(message, now)
            case Booked():
                self._booked(message, now)
            case NotBooked():
                self._not_booked(message, now)

    def _offered(self, offer: NodesOffered, now: Instant) -> None:
        """Ask the machines of an offer to hold the reservation, or refuse it without them."""
        number = offer.reservation.number
        reservation, exchange = self._under_way(offer.reservation)
        if reservation is None or exchange is None or not exchange.is_sought:
            return  # it was given up, or waits for its next try
        if reservation.version != offer.version or reservation.nodes:
            return
        if not offer.machines:
            reasons = (*offer.reasons, *exchange.refusals.values())
            self._refuse(reservation, reasons, offer.earliest_wall_s, now)
            return
        machines = tuple(sorted(dict.fromkeys(offer.machines)))
        without = frozenset(self._without(reservation, exchange))
        is_whole = len(offer.machines) == len(machines) == reservation.terms.nodes
        if not is_whole or not without.isdisjoint(machines):
            return
        terms = _terms_at(exchange.asked, offer.start_wall_s)
        problem = self._problem(reservation, terms, now)
        if problem is not None:
            reason = Reason(Rule.NOT_RESERVED, problem.hint, problem.message)
            self._refuse(reservation, (reason,), terms.start_wall_s, now)
            return
        self._store(replace(reservation, nodes=machines, terms=terms))
        exchange.holds(terms.hold_s, now)
        self._book(number, machines, Phase.HELD)

    def _booked(self, booked: Booked, now: Instant) -> None:
        """Note how far a node has it; go on once all of them do."""
        machine = booked.machine
        reservation, exchange = self._under_way(booked.reservation)
        if not self._is_expected(reservation, booked):
            return
        assert reservation is not None
        if reservation.state in (_CONFIRMED, _OPEN):
            if booked.unable is not None:
                self.note_missing(reservation, machine)
            elif machine in reservation.missing and booked.phase >= Phase.CONFIRMED:
                missing = tuple(each for each in reservation.missing if each != machine)
                self._store(replace(reservation, missing=missing))
            return
        assert exchange is not None, "it is under way"
        exchange.has_told(machine, booked.phase)
        if reservation.state is _DECIDING:
            if exchange.confirmed == len(reservation.nodes):
                self._confirm(reservation, exchange, now)
        elif len(exchange.phases) == len(reservation.nodes) and now.steady_s < exchange.give_up_s:
            self._decide(reservation, exchange, now)

    def _not_booked(self, answer: NotBooked, now: Instant) -> None:
        """Note that a machine has nothing of it: it refused, has freed it, or has lost it."""
        machine = answer.machine
        reservation, exchange = self._under_way(answer.reservation)
        if reservation is None:
            return
        is_asked = exchange is not None and machine in reservation.unanswered
        if exchange is not None and is_asked and answer.version == _freed_version(reservation):
            self._has_freed(reservation, exchange, machine)
            return
        if machine not in reservation.nodes or answer.version != reservation.version:
            return
        if reservation.state in (_CONFIRMED, _OPEN):
            self.note_missing(reservation, machine)
        elif exchange is not None and reservation.state is not _OVER:
            exchange.refuses(machine, answer.reason)
            self._give_up_try(reservation, exchange, (answer.reason,), machine, now)

    def note_missing(self, reservation: Reservation, machine: str) -> None:
        """Note that a reservation that stands lacks one of its nodes."""
        if machine not in reservation.missing:
            missing = tuple(sorted((*reservation.missing, machine)))
            self._store(replace(reservation, missing=missing))

    def ask_missing(self, number: int) -> None:
        """Ask the nodes that a reservation lacks whether they have it after all."""
        self._book(number, self._stored.by_number[number].missing, Phase.CONFIRMED)

    def frees(self, reservation: Reservation, now: Instant) -> None:
        """Tell the machines that have something of an earlier version to free that."""
        self._free_all(reservation, now, is_first=True)
        self._drop_if_settled(reservation.number)

    def left_of(self, number: int) -> tuple[str, ...]:
        """Return the machines that have not freed what they were asked to."""
        reservation, exchange = self._stored.by_number.get(number), self._exchanges.get(number)
        if reservation is None:
            return ()
        return reservation.unanswered if exchange is None else exchange.left(reservation)

    def _has_freed(self, reservation: Reservation, exchange: Exchange, machine: str) -> None:
        """Note that a machine has freed it; stored once all have, for it can be told again."""
        exchange.free[machine] = None
        if not exchange.left(reservation):
            exchange.free_s = inf
            self._store(replace(reservation, unanswered=()), is_urgent=False)
            self._drop_if_settled(reservation.number)

    def link_up(self, machine: str, now: Instant) -> None:
        """Tell a machine that can be reached again what it may not have received.

        What is confirmed is asked to be confirmed again: a machine that lost it says so.
        """
        for number, reservation in self._stored.by_number.items():
            exchange = self._exchanges.get(number)
            if exchange is not None and machine in exchange.left(reservation):
                self._free(number, [machine])
            if reservation.is_over or machine not in reservation.nodes:
                continue
            if reservation.state is not _SEEKING:
                self._book(number, [machine], Phase.CONFIRMED)
            elif exchange is not None and now.steady_s < exchange.give_up_s:
                self._book(number, [machine], Phase.HELD)

    def rejoin(self, now: Instant) -> None:
        """After a restart: give up what was not decided, go on with what was."""
        for number, reservation in list(self._stored.by_number.items()):
            if reservation.is_occurrence and not self.is_of_changes:
                self._resume(reservation, now)
            elif reservation.state is _SEEKING:
                self._over(reservation, ReservationEnd.REFUSED, reservation.nodes, now)
                continue
            if reservation.state is _DECIDING:
                self._exchange_of(reservation).decides(now)
                self._book(number, reservation.nodes, Phase.CONFIRMED)
            if reservation.unanswered:
                self._free_all(reservation, now, is_first=True)

    def _resume(self, reservation: Reservation, now: Instant) -> None:
        """Go on with an occurrence that was not decided: nobody else asks for it again."""
        if reservation.state in (_SEEKING, _DECIDING):
            self._exchange_of(reservation).is_awaited = True
        if reservation.state is not _SEEKING:
            return
        if reservation.nodes:
            self._exchange_of(reservation).holds(reservation.terms.hold_s, now)
            self._book(reservation.number, reservation.nodes, Phase.HELD)
        else:
            self._seek(reservation.number, now)

    # --- time ------------------------------------------------------------------------------------

    def settle(self, now: Instant) -> None:
        """Send again what is due, and give up what has lasted for too long."""
        for number, exchange in list(self._exchanges.items()):
            if exchange.next_s <= now.steady_s:
                self._go_on(number, exchange, now)

    @property
    def next_s(self) -> float:
        """Return when `settle` has something to do, by the steady clock; inf: never."""
        return min((each.next_s for each in self._exchanges.values()), default=inf)

    def _go_on(self, number: int, exchange: Exchange, now: Instant) -> None:
        """Do what is due for one reservation."""
        reservation = self._stored.by_number[number]
        if exchange.give_up_s <= now.steady_s:
            self._give_up_try(reservation, exchange, _silent(reservation, exchange), "", now)
        elif exchange.send_s <= now.steady_s:
            if reservation.state is _DECIDING:
                exchange.asks_to_confirm(now)
                self._book(number, exchange.lacking(reservation), Phase.CONFIRMED)
            elif reservation.nodes:
                exchange.send_s = now.steady_s + SEEK_S
                self._book(number, exchange.lacking(reservation), Phase.HELD)
            else:
                self._seek(number, now)
        if exchange.free_s <= now.steady_s and number in self._stored.by_number:
            self._free_all(self._stored.by_number[number], now)

    # --- steps -----------------------------------------------------------------------------------

    def _seek(self, number: int, now: Instant) -> None:
        """Ask the broker for machines."""
        reservation, exchange = self._stored.by_number[number], self._exchanges[number]
        exchange.is_sought, exchange.send_s = True, now.steady_s + SEEK_S
        without = self._without(reservation, exchange)
        named, kept = self._stored.named(number), self._kept(number)
        seek = SeekNodes(named, reservation.version, exchange.asked, without, kept)
        self._effects.append(Send("", Part.BROKER, seek))

    def _decide(self, reservation: Reservation, exchange: Exchange, now: Instant) -> None:
        """All nodes hold it: it is to be, from now on also after a restart."""
        self._store(replace(reservation, state=_DECIDING))
        exchange.decides(now)
        self._book(reservation.number, reservation.nodes, Phase.CONFIRMED)

    def _confirm(self, reservation: Reservation, exchange: Exchange, now: Instant) -> None:
        """All nodes have it: say so to whoever asked."""
        self._store(replace(reservation, state=_CONFIRMED))
        exchange.end_try()
        self._drop_if_settled(reservation.number)
        self._effects.append(ReservationAnswered(reservation.number, is_confirmed=True))

    def _give_up_try(
        self,
        reservation: Reservation,
        exchange: Exchange,
        reasons: tuple[Reason, ...],
        refused_by: str,
        now: Instant,
    ) -> None:
        """Free what nodes hold; seek others after a pause, if it was not tried too often."""
        nodes = tuple(each for each in reservation.nodes if each != refused_by)
        unanswered = tuple(sorted((*exchange.left(reservation), *nodes)))
        again = replace(
            reservation,
            version=reservation.version + 1,
            terms=exchange.asked,
            state=_SEEKING,
            nodes=(),
            unanswered=unanswered,
        )
        is_last = exchange.tries >= TRIES_MAX or not exchange.is_awaited
        if is_last or len(self._without(again, exchange)) > NODES_MAX:
            self._refuse(replace(reservation, nodes=nodes), reasons, None, now)
            return
        share = 1.0 if self._rng is None else self._rng.random()
        exchange.begin_try(now.steady_s + PAUSE_MIN_S + (PAUSE_MAX_S - PAUSE_MIN_S) * share)
        self._store(again)
        if unanswered:
            self._free_all(again, now, is_first=True)

    def _refuse(
        self,
        reservation: Reservation,
        reasons: Iterable[Reason],
        earliest_wall_s: float | None,
        now: Instant,
    ) -> None:
        told = tuple(reasons)[:REASONS_MAX]
        self._answer_refused(reservation.number, told, earliest_wall_s)
        if reservation.is_occurrence:  # nobody waits for the answer
            reservation = replace(reservation, reasons=told[:REASONS_KEPT_MAX])
        self._over(reservation, ReservationEnd.REFUSED, reservation.nodes, now)

    def _answer_refused(
        self, number: int, reasons: tuple[Reason, ...], earliest_wall_s: float | None
    ) -> None:
        """Tell whoever waits for the answer that it is not to be."""
        exchange = self._exchanges.get(number)
        if exchange is not None and exchange.is_awaited:
            exchange.is_awaited = False
            is_change = self.is_of_changes
            answer = ReservationAnswered(number, False, reasons, earliest_wall_s, is_change)
            self._effects.append(answer)

    def _over(
        self, reservation: Reservation, end: ReservationEnd, asked: tuple[str, ...], now: Instant
    ) -> None:
        """End a reservation; the machines that were `asked` are to free what they have of it."""
        number, exchange = reservation.number, self._exchanges.get(reservation.number)
        left = reservation.unanswered if exchange is None else exchange.left(reservation)
        if self.changes is not None:
            reservation, more = self.changes.withdrawn(reservation, is_freed=bool(asked))
            left = (*left, *more)
        unanswered = tuple(sorted(dict.fromkeys((*left, *asked))))
        over = replace(
            reservation, state=_OVER, end=end, over_wall_s=now.wall_s, unanswered=unanswered
        )
        self._store(over)
        self.ended.append(number)
        if exchange is not None:
            exchange.end_try()
        if unanswered:
            self._free_all(over, now, is_first=True)
        self._drop_if_settled(number)

    # --- of what stands beside it ----------------------------------------------------------------

    def _problem(
        self, reservation: Reservation, terms: ReservationTerms, now: Instant
    ) -> Problem | None:
        """Return why nothing can be reserved under these terms any more; None: it can be."""
        horizon_s = inf if reservation.is_occurrence else self._stored.limits.horizon_s
        return terms_problem(terms, now.wall_s, horizon_s)

    def _kept(self, _number: int) -> tuple[str, ...]:
        """Return the machines that have an earlier version, which stands."""
        return ()

    def _first_version(self, _number: int) -> int:
        """Return from which version on machines are to free what they have."""
        return 0

    # --- helpers ---------------------------------------------------------------------------------

    def _under_way(self, named: ReservationId) -> tuple[Reservation | None, Exchange | None]:
        if named.home != self._stored.home:
            return None, None
        return self._stored.by_number.get(named.number), self._exchanges.get(named.number)

    def _is_expected(self, reservation: Reservation | None, booked: Booked) -> bool:
        """Return whether a node may have what it says it has; else have it freed.

        Of what this home has lost, or forgot, it may be anything.
        """
        machine, version = booked.machine, booked.version
        if booked.reservation.home != self._stored.home:
            return False
        if reservation is not None and not reservation.is_over and machine in reservation.nodes:
            if version >= reservation.version:
                return version == reservation.version
        elif reservation is not None and machine in reservation.unanswered:
            return False  # it is told again until it has freed it
        unbook = Unbook(booked.reservation, version, self._first_version(booked.reservation.number))
        self._effects.append(Send(machine, Part.NODE, unbook))
        return False

    def _without(self, reservation: Reservation, exchange: Exchange) -> tuple[str, ...]:
        """Return the machines that are not to be offered: they refused, or did not answer."""
        return tuple(sorted(dict.fromkeys((*exchange.unsuitable, *exchange.left(reservation)))))

    def _exchange_of(self, reservation: Reservation) -> Exchange:
        """Return what is under way for it; begin if nothing is."""
        exchange = self._exchanges.get(reservation.number)
        if exchange is None:
            exchange = self._exchanges[reservation.number] = Exchange(reservation.terms)
        return exchange

    def _drop_if_settled(self, number: int) -> None:
        """Forget what was under way if nothing is any more."""
        reservation = self._stored.by_number.get(number)
        if reservation is None or not (is_undecided(reservation) or reservation.unanswered):
            self._exchanges.pop(number, None)

    def _book(self, number: int, machines: Iterable[str], phase: Phase) -> None:
        """Have machines keep it, up to this phase; in the order of their names."""
        reservation = self._stored.by_number[number]
        booking, hold_s = self._booking(reservation, phase), reservation.terms.hold_s
        book = Book(booking, hold_s, is_later=self.is_of_changes)
        for machine in machines:
            self._send(machine, book)

    def _booking(self, reservation: Reservation, phase: Phase) -> Booking:
        terms = reservation.terms
        return Booking(
            self._stored.named(reservation.number),
            reservation.version,
            terms.account,
            terms.start_wall_s,
            terms.end_wall_s,
            terms.resources,
            terms.user,
            terms.users,
            terms.group,
            phase,
        )

    def _free_all(self, reservation: Reservation, now: Instant, *, is_first: bool = False) -> None:
        """Tell machines to free it, until they answer."""
        exchange = self._exchange_of(reservation)
        if is_first:
            exchange.freed = 0
        exchange.asks_to_free(now)
        self._free(reservation.number, exchange.left(reservation))

    def _free(self, number: int, machines: Iterable[str]) -> None:
        reservation = self._stored.by_number[number]
        unbook = Unbook(
            self._stored.named(number),
            _freed_version(reservation),
            self._first_version(number),
            reservation.end is ReservationEnd.NO_SHOW,
        )
        for machine in machines:
            self._send(machine, unbook)

    def _send(self, machine: str, message: ReservationToNode) -> None:
        self._effects.append(Send(machine, Part.NODE, message))

    def _store(self, reservation: Reservation, *, is_urgent: bool = True) -> None:
        exchange = self._exchanges.get(reservation.number)
        if exchange is not None and exchange.free:
            reservation = replace(reservation, unanswered=exchange.left(reservation))
            exchange.free.clear()
        self._stored.store(reservation, is_urgent=is_urgent)

    def check(self) -> None:
        """Raise if something is under way that need not be, or is not that must be."""
        for number, reservation in self._stored.by_number.items():
            is_needed = is_undecided(reservation) or bool(reservation.unanswered)
            assert is_needed is (number in self._exchanges), f"{reservation} is forgotten"
        assert self._exchanges.keys() <= self._stored.by_number.keys()


def is_undecided(reservation: Reservation) -> bool:
    """Return whether nodes are sought for it, or have not all confirmed it."""
    return reservation.state in (_SEEKING, _DECIDING)


def _terms_at(asked: ReservationTerms, start_wall_s: float) -> ReservationTerms:
    """Return the terms with the start that was offered, if the earliest was asked for."""
    if not asked.is_earliest:
        return asked
    start_wall_s = max(asked.start_wall_s, start_wall_s)
    return replace(asked, start_wall_s=start_wall_s, end_wall_s=start_wall_s + asked.length_s)


def _freed_version(reservation: Reservation) -> int:
    """Return up to which version machines are to free it: this one, if nothing is to be kept."""
    return reservation.version if reservation.is_over else reservation.version - 1


def _silent(reservation: Reservation, exchange: Exchange) -> tuple[Reason, ...]:
    """Return why a try was given up: the machines that did not answer."""
    silent = exchange.lacking(reservation)
    more = f" and {len(silent) - NAMED_MAX} more" if len(silent) > NAMED_MAX else ""
    needed = f"the answers of all {len(reservation.nodes)} machines in time"
    had = f"none of {', '.join(silent[:NAMED_MAX])}{more}"
    return (Reason(Rule.SEATS_NOT_HELD, needed, had),)


def cancelled(by: str) -> tuple[Reason, ...]:
    """Return why nothing comes of what was asked for: somebody gave it back."""
    return (Reason(Rule.NOT_RESERVED, "a reservation that nobody cancels", f"{by} cancelled it"),)
