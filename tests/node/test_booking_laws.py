"""Whatever homes ask for and clocks do, no moment is given away twice."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from iriai.model.claim import HOLD_MAX_S, Phase
from iriai.model.reservation import Booking
from iriai.model.state import EndCause
from iriai.model.suspension import SuspendReason
from iriai.protocol.messages.effects import (
    AttemptFrozen,
    AttemptStarted,
    FreezeAttempt,
    LaunchAttempt,
    LauncherAttached,
    TerminateAttempt,
    WakeAt,
)
from iriai.protocol.messages.reservations import Book, Booked, Unbook
from iriai.protocol.messages.scheduling import Acknowledge, Run
from tests.node.booking_story import WAKE, booking, named
from tests.node.lone_node import LoneNode, exited
from tests.support.told import Told, attempt, spec

GRACE_S = 10.0
NUMBERS = st.integers(0, 2)
TIMES = st.sampled_from([0.0, 30.0, 300.0, 900.0, 1200.0])
LENGTHS = st.sampled_from([60.0, 300.0, 900.0, 1800.0])

runs = st.tuples(
    st.just("run"),
    st.integers(1, 4),
    st.none() | LENGTHS,
    st.none() | st.booleans(),
    st.none() | st.booleans(),
)
books = st.tuples(
    st.just("book"), NUMBERS, TIMES, LENGTHS, st.integers(1, 4), st.integers(0, 3).map(bool)
)
waits = st.tuples(st.just("wait"), TIMES)
others = st.one_of(
    st.tuples(st.just("confirm"), NUMBERS),
    st.tuples(st.just("unbook"), NUMBERS),
    st.tuples(st.just("finish"), st.integers(0, 3)),
)
troubles = st.one_of(
    st.tuples(st.just("step"), st.sampled_from([-900.0, -60.0, 0.04, 60.0, 900.0, 1800.0])),
    st.tuples(st.just("freeze"), st.integers(0, 3), st.booleans()),
    st.tuples(st.just("restart")),
)


def lives(*deeds):
    """A booking or two, and then anything."""
    first = st.lists(books, min_size=1, max_size=2)
    return st.builds(list.__add__, first, st.lists(st.one_of(*deeds), min_size=3, max_size=25))


usual = lives(runs, runs, books, waits, waits, others)
unusual = lives(runs, runs, books, waits, waits, others, troubles)


class Life:
    """A node of four cpus; a launcher that needs the whole grace for each end."""

    def __init__(self) -> None:
        self.node = LoneNode()
        self.number = 0
        self.running: dict[int, float | None] = {}
        """When the limit of each task that runs is over."""
        self.ending: dict[int, tuple[float, EndCause]] = {}
        self.alarm_s: float | None = None
        self.asked: dict[int, Booking] = {}

    def take(self, said: Told) -> Told:
        for each in said.others:
            match each:
                case LaunchAttempt():
                    limit_s = each.spec.time_limit_s
                    end_s = None if limit_s is None else self.node.now_s + limit_s
                    self.running[each.attempt.number] = end_s
                case TerminateAttempt():
                    number = each.attempt.number
                    self.ending.setdefault(number, (self.node.now_s + each.grace_s, each.cause))
                case WakeAt():
                    self.alarm_s = each.steady_s
        for number in [each for each in self.running if each not in self.node.started]:
            self.node.started.add(number)
            wall_s = self.node.instant().wall_s
            self.take(self.node.tell(AttemptStarted(attempt(number), wall_s)))
        return said

    def tell(self, *events) -> Told:
        return self.take(self.node.tell(*events))

    def do(self, deed) -> None:
        getattr(self, deed[0])(*deed[1:])

    def run(self, cpus, limit_s, evictable, inside) -> None:
        self.number += 1
        kept = [each for each in self.node.node.bookings.kept.values() if each.is_open or inside]
        reservation = kept[0].reservation if kept and inside is not None else None
        fields = {"time_limit_s": limit_s, "evictable": evictable, "kill_grace_s": GRACE_S}
        job = spec("ann", cpus=cpus, reservation=reservation, **fields)
        if self.node.capabilities:
            self.tell(Run(attempt(self.number), job, self.node.capabilities[0]))

    def book(self, number, in_s, length_s, cpus, is_wanted) -> None:
        start_s = self.node.now_s + self.node.stepped_s + in_s
        asked = booking(number, start_s, length_s, cpus=cpus)
        if number not in self.asked:
            said = self.tell(Book(asked, HOLD_MAX_S))
            if any(isinstance(each, Booked) for each in said.home):
                self.asked[number] = asked
                if is_wanted:
                    self.confirm(number)

    def confirm(self, number) -> None:
        if number in self.asked:
            asked = msgspec.structs.replace(self.asked[number], phase=Phase.CONFIRMED)
            self.tell(Book(asked))

    def unbook(self, number) -> None:
        self.asked.pop(number, None)
        self.tell(Unbook(named(number), 1))

    def step(self, seconds) -> None:
        self.node.step_clock(seconds)
        self.tell(WAKE)

    def freeze(self, place, is_given) -> None:
        node, reason = self.node, SuspendReason.OWNER
        for number in list(self.running)[place : place + 1]:
            node.node.suspend([attempt(number)], reason, node.instant(), is_given=is_given)
            for each in self.take(node.settle()).others:
                if isinstance(each, FreezeAttempt):
                    told = (each.attempt, each.number, each.reasons, 0.0, node.now_s)
                    self.tell(AttemptFrozen(*told))
            if is_given:
                self.running[number] = None

    def restart(self) -> None:
        before = self.node
        bookings = before.node.bookings.stored()
        self.node = LoneNode(
            claims=before.node.claims(),
            bookings=bookings,
            incarnation=before.idle.incarnation + 1,
            now_s=before.now_s,
            attached=False,
            stepped_s=before.stepped_s,
        )
        self.node.started = set(self.running)
        self.take(self.node.first)
        wall_s = self.node.instant().wall_s
        self.tell(LauncherAttached(tuple((attempt(number), wall_s) for number in self.running)))

    def finish(self, place) -> None:
        for number in list(self.running)[place : place + 1]:
            self.end(number, EndCause.COMPLETED)

    def end(self, number: int, cause: EndCause) -> None:
        del self.running[number]
        self.ending.pop(number, None)
        self.tell(exited(number, cause))
        self.tell(Acknowledge(attempt(number)))

    def wait(self, seconds: float) -> None:
        """Time passes: alarms ring, limits are over, and graces."""
        until_s = self.node.now_s + seconds
        for _ in range(500):
            moments = [at_s for at_s, _ in self.ending.values()]
            moments += [at_s + GRACE_S for at_s in self.running.values() if at_s is not None]
            moments += [] if self.alarm_s is None else [self.alarm_s]
            due_s = min(moments, default=until_s)
            if due_s > until_s:
                break
            self.node.now_s = max(self.node.now_s, due_s)
            now_s = self.node.now_s
            for number, (at_s, cause) in list(self.ending.items()):
                if at_s <= now_s and number in self.running:
                    self.end(number, cause)
                elif number not in self.running:
                    del self.ending[number]
            for number, at_s in list(self.running.items()):
                if at_s is not None and at_s + GRACE_S <= now_s:
                    self.end(number, EndCause.TIME_LIMIT)
            if self.alarm_s is not None and self.alarm_s <= now_s:
                self.alarm_s = None
                self.tell(WAKE)
            self.look()
        self.node.now_s = until_s

    def look(self) -> None:
        """Hook of a law."""


@given(unusual)
def test_claims_and_bookings_are_within_the_machine_at_every_moment(deeds):
    """`LoneNode` checks the node after each turn."""
    life = Life()
    for deed in deeds:
        life.do(deed)


class Punctual(Life):
    """Without steps of the clock and suspensions bookings open at their starts."""

    def look(self) -> None:
        wall_s = self.node.instant().wall_s
        for kept in self.node.node.bookings.kept.values():
            booking = kept.booking
            is_due = booking.start_wall_s <= wall_s < booking.end_wall_s
            if is_due and kept.until_s is None and self.alarm_s != self.node.now_s:
                assert kept.is_open, f"{kept.reservation} is late"


@given(usual)
def test_a_booking_opens_at_its_start(deeds):
    life = Punctual()
    for deed in deeds:
        life.do(deed)


@given(usual)
def test_a_task_is_evicted_only_if_it_was_evictable(deeds):
    life = Life()
    kept = {}
    for deed in deeds:
        life.do(deed)
        for held in life.node.node._claims.all():
            kept[held.claim.attempt] = held
    for held in kept.values():
        if held.stop is not None and held.stop.cause is EndCause.EVICTED:
            assert held.spec.is_evictable
