"""Whatever later versions of bookings come and go, no moment is given away twice."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from iriai.model.claim import HOLD_MAX_S, Phase
from iriai.model.ids import ReservationId
from iriai.model.reservation import Booking
from iriai.model.resources import Resources
from iriai.node.reservations.kept_booking import KeptBooking
from iriai.policy.placement.bookings import RoomProfile
from iriai.protocol.messages.reservations import Book, Booked, Unbook
from tests.node.booking_story import ANN, booking, named
from tests.node.test_booking_laws import (
    LENGTHS,
    NUMBERS,
    TIMES,
    Life,
    Punctual,
    books,
    lives,
    others,
    runs,
    troubles,
    waits,
)

changes = st.tuples(
    st.just("change"), NUMBERS, TIMES, LENGTHS, st.integers(1, 4), st.integers(0, 3)
)
decisions = st.tuples(st.sampled_from(["switch", "drop", "confirm_later"]), NUMBERS)


class Changing:
    """A life in which homes ask for other versions as well."""

    def change(self, number, in_s, length_s, cpus, outcome) -> None:
        """A home asks for the next version of what is confirmed; sometimes it gets it."""
        kept = self.node.node.bookings.kept.get(named(number))
        if kept is None or kept.until_s is not None or kept.later is not None:
            return
        now_s = self.node.now_s + self.node.stepped_s
        start_s = kept.booking.start_wall_s - booking(number, 0.0).start_wall_s
        start_s = start_s if kept.is_open or outcome == 3 else now_s + in_s
        asked = booking(number, start_s, length_s, cpus=cpus, version=kept.version + 1)
        said = self.tell(Book(asked, HOLD_MAX_S, is_later=True))
        if any(isinstance(each, Booked) for each in said.home) and outcome:
            self.confirm_later(number)
            if outcome > 1:
                self.switch(number)

    def later(self, number) -> Booking | None:
        kept = self.node.node.bookings.kept.get(named(number))
        return None if kept is None or kept.later is None else kept.later.booking

    def confirm_later(self, number) -> None:
        later = self.later(number)
        if later is not None:
            self.tell(Book(replace(later, phase=Phase.CONFIRMED)))

    def switch(self, number) -> None:
        later = self.later(number)
        if later is not None and later.phase is Phase.CONFIRMED:
            self.tell(Unbook(named(number), later.version - 1))

    def drop(self, number) -> None:
        later = self.later(number)
        if later is not None:
            self.tell(Unbook(named(number), later.version, later.version))

    def unbook(self, number) -> None:
        self.asked.pop(number, None)
        self.tell(Unbook(named(number), 1_000))

    def book(self, number, *rest) -> None:
        if named(number) not in self.node.node.bookings.kept:
            self.asked.pop(number, None)
        super().book(number, *rest)


class ChangingLife(Changing, Life):
    pass


class PunctualChanges(Changing, Punctual):
    pass


usual = (runs, runs, books, changes, changes, decisions, waits, waits, others)


@given(lives(*usual, troubles))
def test_versions_and_claims_are_within_the_machine_at_every_moment(deeds):
    """`LoneNode` checks the node after each turn."""
    life = ChangingLife()
    for deed in deeds:
        life.do(deed)


@given(lives(*usual))
def test_a_booking_opens_at_its_start_whatever_becomes_of_later_versions(deeds):
    life = PunctualChanges()
    for deed in deeds:
        life.do(deed)


@given(lives(*usual, troubles))
def test_all_versions_are_there_after_a_restart(deeds):
    life = ChangingLife()
    for deed in deeds:
        life.do(deed)
    before = life.node.node.bookings.stored()
    life.restart()
    assert sorted(life.node.node.bookings.stored(), key=str) == sorted(before, key=str)


spans = st.tuples(st.integers(0, 8), st.integers(1, 6), st.integers(0, 3), st.integers(0, 2))


def kept_of(version: int, start: int, length: int, cpus: int, gpus: int) -> KeptBooking:
    whole = Booking(
        *(ReservationId("ume", 1), version, ANN, float(start), float(start + length)),
        Resources(cpus, 0, gpus),
    )
    kept = KeptBooking(whole, None)
    kept.map(0.0)
    return kept


@given(spans, spans, st.booleans())
def test_both_versions_take_of_each_resource_the_most_that_one_does(first, second, is_open):
    """Second by second, as a naive calendar would."""
    kept, later = kept_of(1, *first), kept_of(2, *second)
    kept.is_open = is_open
    kept.later = later
    room = RoomProfile(Resources(9, 0, 9), (), kept.spans)
    for second_s in range(-1, 16):
        moment_s = second_s + 0.5
        begun = is_open and moment_s < kept.end_s
        there = [
            each for each in (kept, later) if each.covers(moment_s) or (each is kept and begun)
        ]
        cpus = max((each.resources.cpus for each in there), default=0)
        gpus = max((each.resources.gpus for each in there), default=0)
        assert room.room_at(moment_s) == Resources(9 - cpus, 0, 9 - gpus)
