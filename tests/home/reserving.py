"""Reservations of a home alone, and nodes that keep what the rules say (docs/spec/017)."""

from __future__ import annotations

from msgspec.structs import replace

from iriai.model.claim import Phase
from iriai.model.ids import Account, ReservationId
from iriai.model.instant import Instant
from iriai.model.reason import Reason, Rule
from iriai.model.records import ReservationStored
from iriai.model.reservation import Booking, Reservation, ReservationTerms
from iriai.protocol.messages.effects import Part, ReservationAnswered, Send
from iriai.protocol.messages.reservations import Book, Booked, NodesOffered, NotBooked, Unbook
from tests.home.lone_home import LoneHome
from tests.support.told import HOME, WALL_S, Told, instant

LAB = Account("lab", "ann")
FULL = Reason(Rule.MACHINE_BUSY, "the machine", "tasks have some of it then", "b")
TAKEN = Reason(Rule.RESERVED_AHEAD, "the machine", "ume-r9 has it", "b")
DAY_S = 86_400.0


def terms(start_s: float = 3_600.0, length_s: float = 3_600.0, nodes: int = 2, **changes):
    """Of a reservation that begins in an hour."""
    span = (WALL_S + start_s, WALL_S + start_s + length_s)
    return ReservationTerms(LAB, "ann", *span, nodes, **changes)


def named(number: int = 1) -> ReservationId:
    return ReservationId(HOME, number)


def offer(*machines: str, version: int = 1, number: int = 1, **changes) -> NodesOffered:
    return NodesOffered(named(number), version, machines, **changes)


def held(machine: str, version: int = 1, number: int = 1) -> Booked:
    return Booked(named(number), version, machine, Phase.HELD)


def confirmed(machine: str, version: int = 1, number: int = 1) -> Booked:
    return Booked(named(number), version, machine, Phase.CONFIRMED)


def refused(machine: str, version: int = 1, number: int = 1, reason: Reason = FULL) -> NotBooked:
    return NotBooked(named(number), version, machine, reason)


def answers(said: Told) -> list[ReservationAnswered]:
    """What is told to whoever asked."""
    return [each for each in said.others if isinstance(each, ReservationAnswered)]


def stored(said: Told) -> list[Reservation]:
    """What is kept of reservations, in order."""
    return [each.reservation for each in said.records if isinstance(each, ReservationStored)]


def states(said: Told) -> list[str]:
    return [str(each.state) for each in stored(said)]


class ReservingHome(LoneHome):
    """A home of which reservations are asked; nodes and the broker are played by the test."""

    def ask(self, **changes) -> Told:
        return self.do(lambda home: home.reservations.ask(terms(**changes), self.now))

    def cancel(self, number: int = 1) -> Told:
        return self.do(lambda home: home.reservations.cancel(number, "ann", self.now))

    def end(self, number: int = 1) -> Told:
        return self.do(lambda home: home.reservations.end(number, "ann", self.now))

    def confirmed(self, *machines: str, **changes) -> int:
        """Reserve these machines."""
        self.ask(nodes=len(machines), **changes)
        number = self.home.reservations.next_number - 1
        self.tell(offer(*machines, number=number))
        self.tell(*(held(each, number=number) for each in machines))
        [answer] = answers(self.tell(*(confirmed(each, number=number) for each in machines)))
        assert answer.is_confirmed
        return number

    def sent(self, kind: type) -> list[str]:
        """The machines that were sent a message of this kind in the last turn, in order."""
        to_nodes = (e for e in self.effects if isinstance(e, Send) and e.part is Part.NODE)
        return [each.machine for each in to_nodes if isinstance(each.message, kind)]

    def wait(self, seconds: float) -> Told:
        """Let time pass, and a turn begin."""
        self.now_s += seconds
        return self.tell()

    @property
    def now(self) -> Instant:
        return instant(self.now_s)

    def of(self, number: int = 1) -> Reservation:
        return self.home.reservations.get(number)

    def restarted(self, later_s: float = 0.0) -> ReservingHome:
        """The next process with the same store."""
        return ReservingHome(self.store, self.now_s + later_s)


class KeepingNode:
    """A node that keeps bookings as the rules say; it is asked one message at a time."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.kept: dict[ReservationId, Booking] = {}
        self.later: dict[ReservationId, Booking] = {}
        """The versions beside these."""
        self.until_s: dict[ReservationId, float] = {}
        """Of the newest version of each that is only held."""
        self.refuses = False

    def take(self, message: Book | Unbook, now_s: float) -> Send:
        """Return the answer to the home."""
        self.expire(now_s)
        answer = self._book(message, now_s) if isinstance(message, Book) else self._free(message)
        return Send(HOME, Part.HOME, answer)

    def expire(self, now_s: float) -> None:
        """Free what was not confirmed in time."""
        for reservation, until_s in list(self.until_s.items()):
            if until_s <= now_s:
                del self.until_s[reservation]
                if self.later.pop(reservation, None) is None:
                    del self.kept[reservation]

    def forget(self) -> None:
        """Lose all that is stored."""
        for kept in (self.kept, self.later, self.until_s):
            kept.clear()

    def version(self, reservation: ReservationId, version: int) -> Booking | None:
        """Return what is kept of a version; None: nothing."""
        for kept in (self.kept, self.later):
            if reservation in kept and kept[reservation].version == version:
                return kept[reservation]
        return None

    def _book(self, book: Book, now_s: float) -> Booked | NotBooked:
        asked, reservation = book.booking, book.booking.reservation
        known = self.version(reservation, asked.version)
        if known is None:
            newest = self.later.get(reservation) or self.kept.get(reservation)
            is_newer = newest is None or (
                reservation not in self.until_s and asked.version > newest.version
            )
            if self.refuses or asked.phase is not Phase.HELD or not is_newer:
                return self._nothing(reservation, asked.version)
            if reservation in self.later:
                self.kept[reservation] = self.later.pop(reservation)
            beside = self.later if reservation in self.kept else self.kept
            beside[reservation] = known = asked
            self.until_s[reservation] = now_s + book.hold_s
        elif asked.phase is Phase.CONFIRMED:
            kept = self.later if self.later.get(reservation) is known else self.kept
            if known.phase is Phase.HELD:
                self.until_s.pop(reservation, None)
            kept[reservation] = known = replace(known, phase=Phase.CONFIRMED)
        return Booked(reservation, asked.version, self.name, known.phase)

    def _free(self, unbook: Unbook) -> NotBooked:
        reservation = unbook.reservation
        for kept in (self.later, self.kept):
            known = kept.get(reservation)
            if known is not None and unbook.first <= known.version <= unbook.version:
                if known.phase is Phase.HELD:
                    self.until_s.pop(reservation, None)
                del kept[reservation]
        if reservation in self.later and reservation not in self.kept:
            self.kept[reservation] = self.later.pop(reservation)
        return self._nothing(reservation, unbook.version)

    def _nothing(self, reservation: ReservationId, version: int) -> NotBooked:
        return NotBooked(reservation, version, self.name, replace(TAKEN, machine=self.name))
