"""When what waits may start."""

from __future__ import annotations

from iriai.broker.scheduling.start_estimates import JOBS_MAX
from iriai.model.ids import Account, ReservationId
from iriai.model.records import LedgerRow
from iriai.model.resources import Resources
from iriai.policy.accounting.runtime_estimates import RUN_TO_BEGIN_WITH_S
from iriai.protocol.messages.reservations import BookedTime
from iriai.protocol.messages.scheduling import Counted
from tests.broker.lone_broker import LoneBroker, as_running, want
from tests.support.told import HOME, WALL_S, instant


def estimates(broker) -> dict[int, float]:
    found = broker.broker.estimated_starts(instant(broker.now_s))
    return {each.number: in_s for each, in_s in found.items()}


def busy(broker, *, ends_in_s=None, limit_s=None):
    """All four cpus run one task."""
    running = as_running(want(99, "zoe", cpus=4, limit_s=limit_s), ends_in_s=ends_in_s)
    broker.tell(broker.idle(4, began=(running,)))


def test_what_waits_starts_after_what_runs_and_after_each_other():
    broker = LoneBroker(order="fifo")
    busy(broker, ends_in_s=100.0, limit_s=100.0)
    broker.tell(want(1, cpus=4, limit_s=50.0), want(2, cpus=2, limit_s=30.0), want(3, cpus=2))
    assert estimates(broker) == {1: 100.0, 2: 150.0, 3: 150.0}


def test_without_limits_runs_are_expected_to_last_as_long_as_usual():
    broker = LoneBroker(order="fifo")
    busy(broker)
    broker.tell(want(1, cpus=4), want(2, cpus=4))
    assert estimates(broker) == {1: RUN_TO_BEGIN_WITH_S, 2: 2 * RUN_TO_BEGIN_WITH_S}


def test_what_an_account_usually_takes_counts():
    broker = LoneBroker(order="fifo")
    busy(broker, ends_in_s=100.0, limit_s=100.0)
    row = LedgerRow(Account("lab", "ann"), 1000.0, WALL_S, 50, 8 * 20.0)
    broker.tell(Counted(HOME, (row,), ()))
    broker.tell(want(1, cpus=4, limit_s=3600.0), want(2, "ben", cpus=4))
    assert 119.0 < estimates(broker)[2] < 150.0


def test_short_tasks_are_expected_to_fill_in():
    broker = LoneBroker(order="fifo")
    running = as_running(want(99, "zoe", cpus=2, limit_s=100.0), ends_in_s=100.0)
    broker.tell(broker.idle(4, began=(running,)))
    broker.tell(want(1, cpus=4, limit_s=50.0), want(2, cpus=3, limit_s=500.0))
    assert estimates(broker)[1] == 100.0


def test_few_are_looked_at_however_many_wait():
    broker = LoneBroker(order="fifo")
    busy(broker, ends_in_s=100.0, limit_s=100.0)
    broker.tell(*(want(n, cpus=4, limit_s=10.0, count=1000) for n in range(1, 2 * JOBS_MAX)))
    assert len(estimates(broker)) == JOBS_MAX


def test_nothing_is_guessed_without_a_machine():
    broker = LoneBroker()
    broker.tell(want(1))
    assert estimates(broker) == {}


def test_a_task_that_no_reservation_may_end_is_expected_behind_all_of_them():
    broker = LoneBroker(order="fifo")
    booked = BookedTime(ReservationId(HOME, 1), Resources(4), 1000.0, 2000.0)
    broker.tell(broker.idle(4, bookings=(booked,)))
    broker.tell(want(1, cpus=4))
    assert estimates(broker) == {1: 2000.0}
