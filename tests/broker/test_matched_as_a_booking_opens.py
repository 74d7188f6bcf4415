"""A machine opens a booking while a task is on its way there: the machine will refuse that task."""

from __future__ import annotations

from tests.broker.lone_broker import LoneBroker, matched, want
from tests.broker.test_bookings import booked, inside, told_of
from tests.support.told import job


def test_tasks_inside_start_all_the_same():
    broker = LoneBroker()
    told_of(broker)
    assert matched(broker.tell(want(2, "bob", cpus=4))) == [job(2)]
    told_of(broker, booked(-1.0, 100.0, left=4), whole=False)
    assert matched(broker.tell(inside(count=2))) == [job(1)] * 2
    broker.broker.check()
