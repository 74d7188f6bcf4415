"""Nodes for another version: what a machine has of the one that stands is not in the way."""

from __future__ import annotations

from msgspec.structs import replace

from iriai.model.ids import ReservationId
from iriai.model.reason import Reason, Rule
from iriai.protocol.messages.effects import LinkDown
from iriai.protocol.messages.reservations import NodesOffered, SeekNodes
from tests.broker.lone_broker import LoneBroker, as_running, matched, want
from tests.broker.test_bookings import (
    DRAINED,
    RESERVATION,
    booked,
    inside,
    limit_for,
    offered,
    seek,
    told_of,
)
from tests.support.told import HOME, job

IN_USE = Reason(Rule.OWNER_ACTIVE, "its owner to leave", "they type", "kaki")


def three() -> LoneBroker:
    """Machines of four cpus; the first two have a reservation from 100 s to 200 s."""
    broker = LoneBroker()
    told_of(broker, booked(100.0, 200.0))
    told_of(broker, booked(100.0, 200.0), machine="kaki")
    told_of(broker, machine="nashi")
    return broker


def another(start_s: float, end_s: float, nodes: int = 2, **changes) -> SeekNodes:
    """The next version of what these two have."""
    return replace(seek(start_s, end_s, nodes=nodes), version=2, kept=(HOME, "kaki"), **changes)


def machines(found: NodesOffered) -> tuple[str, ...]:
    return found.machines


def test_it_may_be_longer_where_it_fills_the_machine():
    assert machines(offered(three(), another(100.0, 300.0))) == ("kaki", HOME)


def test_without_that_it_stands_in_its_own_way():
    broker = three()
    assert machines(offered(broker, replace(another(100.0, 300.0), kept=()))) == ()


def test_others_stand_in_its_way():
    broker = three()
    of = ReservationId(HOME, 8)
    told_of(broker, booked(100.0, 200.0), booked(250.0, 350.0, of=of), whole=False)
    assert machines(offered(broker, another(100.0, 300.0))) == ("kaki", "nashi")
    assert machines(offered(broker, another(100.0, 300.0, nodes=3))) == ()


def test_the_machines_that_it_has_come_first():
    broker = three()
    told_of(broker, machine="akane")
    assert machines(offered(broker, another(100.0, 200.0, nodes=3))) == ("akane", "kaki", HOME)


def test_what_runs_inside_is_not_in_its_way():
    broker = LoneBroker()
    within = as_running(inside(100, "ann", cpus=4), ends_in_s=90.0)
    running = (replace(within, reservation=RESERVATION),)
    told_of(broker, booked(0.0, 100.0, left=0), free=0, began=running)
    assert broker.broker.state.machines[HOME].calendar.inside(running[0].attempt) == RESERVATION
    found = offered(broker, replace(another(0.0, 300.0, nodes=1), kept=(HOME,)))
    assert machines(found) == (HOME,)


def test_a_machine_that_its_owner_uses_for_a_moment_keeps_it():
    broker = three()
    told_of(broker, booked(100.0, 200.0), machine="kaki", unavailable=IN_USE)
    assert machines(offered(broker, another(100.0, 300.0))) == ("kaki", HOME)


def test_one_that_is_drained_or_away_does_not():
    broker = three()
    told_of(broker, booked(100.0, 200.0), machine="kaki", unavailable=DRAINED)
    assert machines(offered(broker, another(100.0, 300.0))) == ("nashi", HOME)
    broker.tell(LinkDown("nashi"))
    assert machines(offered(broker, another(100.0, 300.0))) == ()


def test_nothing_starts_in_what_a_later_version_will_take():
    broker = LoneBroker()
    beside = replace(booked(200.0, 300.0), is_beside=True)
    told_of(broker, booked(100.0, 200.0), beside)
    assert matched(broker.tell(want(1, limit_s=limit_for(90.0)))) == [job(1)]
    broker = LoneBroker()
    told_of(broker, booked(0.0, 100.0, cpus=2, left=2), beside, free=2)
    assert matched(broker.tell(want(1, limit_s=limit_for(250.0)))) == []
    assert matched(broker.tell(want(2, limit_s=limit_for(150.0)))) == [job(2)]


def test_a_task_inside_starts_in_the_booking_and_not_beside_it():
    broker = LoneBroker()
    beside = replace(booked(0.0, 300.0, cpus=1), is_beside=True)
    told_of(broker, beside, booked(0.0, 100.0, cpus=2, left=2), free=2)
    assert matched(broker.tell(inside(1, cpus=2))) == [job(1)]
    assert RESERVATION in broker.broker.state.index.booked.open


def test_a_task_inside_waits_for_what_was_matched_just_before_it_opened():
    """The machine refuses that; until it has, both would take more than there is."""
    broker = LoneBroker()
    told_of(broker)
    assert matched(broker.tell(want(1, cpus=3))) == [job(1)]
    told_of(broker, booked(0.0, 100.0, left=4), free=0, whole=False)
    assert matched(broker.tell(inside(2, cpus=2))) == []
    assert matched(broker.tell(inside(3, cpus=1))) == [job(3)]
