"""A new broker does not know all machines yet: it offers what it can, and refuses nothing."""

from __future__ import annotations

from iriai.broker.intake.sessions import GATHER_S
from iriai.protocol.messages.candidates import BrokerCandidate
from tests.broker.lone_broker import LoneBroker
from tests.broker.test_bookings import offered, offers, seek, told_of
from tests.support.told import HOME, WALL_S, instant

MACHINES = ("kaki", "momo", "nashi", HOME)


def new_broker() -> LoneBroker:
    broker = LoneBroker()
    peers = [BrokerCandidate(name, 0.0, 1.0, has_home=False) for name in MACHINES]
    broker.broker.begin(peers, 1.0, instant(0.0))
    return broker


def half_of_them() -> LoneBroker:
    """Half of the machines have reported: tasks start."""
    broker = new_broker()
    for name in MACHINES[:2]:
        told_of(broker, machine=name)
    return broker


def test_it_waits_for_its_machines():
    broker = new_broker()
    assert offers(broker.tell(seek())) == []
    told_of(broker)
    broker.now_s = 2 * GATHER_S
    assert [each.machines for each in offers(broker.wake())] == [(HOME,)]


def test_what_can_be_had_is_offered_at_once():
    assert offered(half_of_them(), seek(nodes=2)).machines == ("kaki", "momo")


def test_more_machines_are_offered_once_they_have_reported():
    broker = half_of_them()
    assert offers(broker.tell(seek(nodes=3))) == []
    found = offers(told_of(broker, machine="nashi"))
    assert [each.machines for each in found] == [("kaki", "momo", "nashi")]


def test_too_few_are_refused_when_no_more_are_to_come():
    broker = half_of_them()
    assert offers(broker.tell(seek(nodes=3))) == []
    broker.now_s = GATHER_S
    (refused,) = offers(broker.wake())
    assert refused.machines == ()
    assert "2 of 2 machines could give one" in str(refused.reasons[0])


def test_the_earliest_start_is_told_when_no_more_are_to_come():
    broker = half_of_them()
    assert offers(broker.tell(seek(0.0, 100.0, is_earliest=True))) == []
    broker.now_s = GATHER_S
    (found,) = offers(broker.wake())
    assert found.machines == ("kaki",)
    assert found.start_wall_s >= WALL_S
