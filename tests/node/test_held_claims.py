"""A machine holds a seat, confirms it, starts it; what is not confirmed ends by itself."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from iriai.model.claim import HOLD_MAX_S, HOLD_S, Phase
from iriai.model.ids import AttemptId
from iriai.model.ranks import SeatPlace
from iriai.model.reason import Rule
from iriai.model.records import ClaimsDropped, ClaimStored
from iriai.model.resources import Resources
from iriai.model.state import EndCause
from iriai.node import holds
from iriai.protocol.messages.effects import AttemptStarted, LaunchAttempt, LinkUp, Part, Wake
from iriai.protocol.messages.scheduling import (
    Accepted,
    Begun,
    End,
    Refusal,
    Renew,
    Renewed,
    Run,
    Stop,
)
from tests.node.lone_node import LoneNode, exited
from tests.support.told import HOME, WALL_S, Told, only, spec

YAMA = "yama"
SEAT = AttemptId(YAMA, 1, 0, 1, 2)
"""The seat of another home that begins with rank 2."""
PLACES = (SeatPlace("aki", 2), SeatPlace(HOME, 2))
LEASE_S = 60.0


def order(node: LoneNode, phase: Phase, seat: AttemptId = SEAT, **changes) -> Told:
    """Its home says how far the seat may go: with a capability where it is new."""
    is_new = seat not in node.node.running() and phase is Phase.HELD
    capability = node.capabilities[0] if is_new else None
    seats = PLACES if phase is Phase.STARTED else ()
    run = Run(seat, spec(), capability, LEASE_S, phase, 2, seats=seats, port=5000 if seats else 0)
    return node.tell(replace(run, **changes))


def answers(said: Told) -> list[Phase]:
    return [each.phase for each in said.home if isinstance(each, Accepted)]


def launches(said: Told) -> list[LaunchAttempt]:
    return [each for each in said.others if isinstance(each, LaunchAttempt)]


def held(**changes) -> LoneNode:
    node = LoneNode()
    order(node, Phase.HELD, **changes)
    return node


def stored(said: Told) -> list[Phase]:
    return [each.claim.phase for each in said.records if isinstance(each, ClaimStored)]


def test_what_is_held_takes_resources_and_starts_nothing():
    node = LoneNode(cpus=4)
    said = order(node, Phase.HELD)
    assert answers(said) == [Phase.HELD]
    assert stored(said) == [Phase.HELD]
    assert launches(said) == []
    assert node.node.calendar.free == Resources(2)
    assert node.node.live(node.instant()) == []


def test_it_starts_with_its_last_phase():
    node = held()
    said = order(node, Phase.CONFIRMED)
    assert (answers(said), stored(said), launches(said)) == ([Phase.CONFIRMED],) * 2 + ([],)
    said = order(node, Phase.STARTED)
    assert stored(said) == [Phase.STARTED]
    [launch] = launches(said)
    assert (launch.attempt, launch.ranks, launch.seats, launch.port) == (SEAT, 2, PLACES, 5000)
    assert launch.spec.resources == Resources(1), "of one rank"
    assert node.node.live(node.instant()) == [SEAT]


def test_after_a_restart_it_starts_when_its_home_says_again_with_which_others():
    node = held()
    order(node, Phase.CONFIRMED)
    order(node, Phase.STARTED)
    again = LoneNode(claims=node.node.claims(), incarnation=2)
    order(again, Phase.CONFIRMED)  # its home has restarted, too
    asked = only(again.first.home, Renew)
    assert launches(again.tell(Renewed(YAMA, asked.asked_steady_s, (SEAT,)))) == []
    [launch] = launches(order(again, Phase.STARTED))
    assert (launch.seats, launch.port) == (PLACES, 5000)


def test_each_phase_may_come_again_and_none_goes_back():
    node = held()
    assert answers(order(node, Phase.HELD)) == [Phase.HELD]
    order(node, Phase.CONFIRMED)
    said = order(node, Phase.HELD)
    assert answers(said) == [Phase.CONFIRMED]
    assert stored(said) == []
    order(node, Phase.STARTED)
    assert answers(order(node, Phase.CONFIRMED)) == [Phase.STARTED]
    node.tell(AttemptStarted(SEAT, WALL_S))
    said = order(node, Phase.CONFIRMED)
    assert answers(said) == [Phase.STARTED]
    assert only(said.home, Begun).attempt == SEAT


def test_a_hold_that_nobody_confirms_ends_by_itself():
    node = held()
    node.wait(HOLD_S)
    said = node.tell(Wake(Part.NODE))
    assert only(said.home, Refusal).reason.rule is Rule.HOLD_EXPIRED
    assert only(said.records, ClaimsDropped).attempts == (SEAT,)
    assert node.node.calendar.free == Resources(4)
    said = order(node, Phase.CONFIRMED)
    assert only(said.home, Refusal).reason.rule is Rule.HOLD_EXPIRED
    assert node.capabilities, "nothing was voided: its home had been told that it was held"


def test_a_hold_lasts_as_long_as_its_home_asks():
    node = LoneNode()
    order(node, Phase.HELD, hold_s=HOLD_MAX_S)
    node.wait(HOLD_MAX_S - 1.0)
    assert node.tell(Wake(Part.NODE)).home == []
    assert answers(order(node, Phase.CONFIRMED)) == [Phase.CONFIRMED]


def test_what_was_held_before_a_restart_is_held_for_the_rest():
    node = held()
    node.wait(4.0)
    again = LoneNode(claims=node.node.claims(), incarnation=2, now_s=node.now_s)
    assert answers(again.tell(LinkUp(YAMA))) == [Phase.HELD]
    again.wait(HOLD_S - 4.0)
    assert only(again.tell(Wake(Part.NODE)).home, Refusal).reason.rule is Rule.HOLD_EXPIRED


@pytest.mark.parametrize("phase", [Phase.HELD, Phase.CONFIRMED])
def test_a_restart_starts_nothing_that_was_not_started(phase):
    node = held()
    order(node, phase)
    again = LoneNode(claims=node.node.claims(), incarnation=2, now_s=node.now_s)
    said = order(again, Phase.CONFIRMED)
    assert answers(said) == [Phase.CONFIRMED]
    assert launches(said) == []
    asked = only([*again.first.home, *said.home], Renew)
    again.tell(Renewed(YAMA, asked.asked_steady_s, asked.unconfirmed))
    assert len(launches(order(again, Phase.STARTED))) == 1


def test_its_lease_begins_when_it_is_confirmed():
    node = held()
    node.wait(5.0)
    said = order(node, Phase.CONFIRMED)
    assert [each for each in said.home if isinstance(each, Renew)] == []
    assert len(launches(order(node, Phase.STARTED))) == 1


def test_a_long_hold_is_no_reason_to_take_its_lease_for_over():
    node = LoneNode()
    order(node, Phase.HELD, hold_s=HOLD_MAX_S)
    node.wait(LEASE_S * 2)
    said = order(node, Phase.CONFIRMED)
    asked = only(said.home, Renew)
    assert asked.unconfirmed == (SEAT,)
    assert launches(order(node, Phase.STARTED)) == [], "not before its home has answered"
    assert len(launches(node.tell(Renewed(YAMA, asked.asked_steady_s, (SEAT,))))) == 1


@pytest.mark.parametrize("phase", [Phase.HELD, Phase.CONFIRMED])
def test_what_is_stopped_before_it_starts_is_free(phase):
    node = held()
    order(node, phase)
    said = node.tell(Stop(SEAT, EndCause.CANCELLED, 0.0))
    assert only(said.home, End).result.cause is EndCause.CANCELLED
    assert node.node.calendar.free == Resources(4)
    assert launches(order(node, Phase.STARTED)) == []
    assert node.node.claims() == [], "another may have its place when the daemon comes back"


def test_only_the_first_seat_tells_a_port():
    node = LoneNode(free_port=lambda: 4711)
    first = SEAT.seat(0)
    order(node, Phase.HELD, attempt=first)
    order(node, Phase.HELD)
    assert [
        only(order(node, Phase.CONFIRMED, seat).home, Accepted).port for seat in (first, SEAT)
    ] == [4711, 0]
    again = LoneNode(claims=node.node.claims(), incarnation=2, free_port=lambda: 1)
    assert only(order(again, Phase.CONFIRMED, first).home, Accepted).port == 4711


def test_a_home_beside_the_machine_hears_of_holds():
    node = LoneNode()
    said = order(node, Phase.HELD, AttemptId(HOME, 1, 0, 1), lease_s=None)
    assert answers(said) == [Phase.HELD]


def test_nothing_is_held_that_has_no_place_now():
    node = LoneNode(cpus=1)
    said = order(node, Phase.HELD)
    assert only(said.home, Refusal).reason.rule is Rule.MACHINE_BUSY


def test_a_home_holds_a_bounded_number(monkeypatch):
    monkeypatch.setattr(holds, "HELD_MAX", 2)
    node = LoneNode(cpus=8)
    for number in (1, 2):
        order(node, Phase.HELD, SEAT._replace(number=number))
    said = order(node, Phase.HELD, SEAT._replace(number=3))
    assert only(said.home, Refusal).reason.rule is Rule.MACHINE_BUSY
    other = order(node, Phase.HELD, AttemptId("aki", 1, 0, 1))
    assert answers(other) == [Phase.HELD], "it costs its home alone"


def test_a_home_that_never_confirms_must_wait_longer_and_longer():
    node = LoneNode()
    pauses = []
    for number in range(1, 7):
        seat = SEAT._replace(number=number)
        while not answers(order(node, Phase.HELD, seat)):
            node.wait(1.0)
            pauses[-1] += 1
        node.wait(HOLD_S)
        node.tell(Wake(Part.NODE))
        pauses.append(0)
    assert pauses == [0, 0, 1, 2, 4, 0]
    node.wait(8.0)
    order(node, Phase.HELD)
    order(node, Phase.CONFIRMED)
    node.tell(Stop(SEAT, EndCause.CANCELLED, 0.0))
    order(node, Phase.HELD, SEAT._replace(number=9))
    node.wait(HOLD_S)
    node.tell(Wake(Part.NODE))
    said = order(node, Phase.HELD, SEAT._replace(number=10))
    assert answers(said) == [Phase.HELD], "one that was confirmed makes up for those before"


def test_an_exclusive_seat_shares_its_machine_among_its_ranks():
    node = LoneNode(cpus=4)
    run = Run(SEAT, spec(exclusive=True), node.capabilities[0], LEASE_S, ranks=2)
    [launch] = launches(node.tell(run))
    assert launch.spec.resources == Resources(2)
    assert node.node.calendar.free == Resources(0)


@pytest.mark.parametrize("rank", [0, 2])
def test_a_run_counts_once_whatever_its_seats(rank):
    """Else an account's tasks of a hundred seats would speak a hundred times for its next."""
    seat = SEAT._replace(rank=rank)
    node = held(seat=seat)
    order(node, Phase.CONFIRMED, seat)
    order(node, Phase.STARTED, seat)
    node.tell(AttemptStarted(seat, WALL_S))
    node.wait(10.0)
    node.tell(replace(exited(), attempt=seat))
    [row] = node.node.ledger.rows()
    assert row.counter > 0.0
    assert row.runs == (not rank)
