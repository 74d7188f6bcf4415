"""Which orders count, and how long a task was frozen."""

import msgspec
import pytest

from iriai.launcher.contract.messages import FreezeOrder
from iriai.launcher.tasks.suspension import TaskSuspension
from iriai.model.suspension import NO_REASONS, Reasons, SuspendReason
from tests.support.told import attempt

USER: Reasons = (SuspendReason.USER,)
OWNER: Reasons = (SuspendReason.OWNER,)
BOTH: Reasons = (SuspendReason.USER, SuspendReason.OWNER)


def order(number: int, reasons: Reasons = USER) -> FreezeOrder:
    return FreezeOrder(attempt(1), number, reasons)


@pytest.mark.parametrize(("number", "counts"), [(4, False), (5, False), (6, True)])
def test_an_order_that_is_not_higher_is_ignored(number: int, counts: bool):
    suspension = TaskSuspension()
    assert suspension.take(order(5), 10.0)
    assert suspension.take(order(number, BOTH), 11.0) is counts
    assert suspension.state(attempt(1)).reasons == (BOTH if counts else USER)


def test_the_first_order_may_have_any_number():
    assert TaskSuspension().take(order(0), 10.0)


def test_time_counts_while_it_is_frozen_and_stands_between():
    suspension = TaskSuspension()
    assert suspension.frozen_s(100.0) == 0.0
    suspension.freeze(10.0)
    assert suspension.frozen_s(12.5) == 2.5
    suspension.thaw(13.0)
    assert suspension.frozen_s(100.0) == 3.0
    suspension.freeze(100.0)
    assert suspension.frozen_s(101.0) == 4.0


def told(suspension: TaskSuspension) -> tuple[object, ...]:
    return msgspec.structs.astuple(suspension.state(attempt(1)))[1:5]


def test_the_state_has_the_time_until_the_last_change():
    suspension = TaskSuspension()
    suspension.take(order(1), 10.0)
    suspension.freeze(10.0)
    assert told(suspension)[2:] == (0.0, 10.0)
    suspension.take(order(2, BOTH), 15.0)
    assert told(suspension)[2:] == (5.0, 15.0)
    suspension.take(order(3, BOTH), 17.0)  # the same reasons: no change
    assert told(suspension) == (3, BOTH, 5.0, 15.0)
    suspension.take(order(4, NO_REASONS), 18.0)
    suspension.thaw(18.0)
    assert told(suspension)[2:] == (8.0, 18.0)


def test_a_clock_that_stands_gives_no_negative_time():
    suspension = TaskSuspension()
    suspension.freeze(10.0)
    assert suspension.frozen_s(9.0) == 0.0


def test_the_owner_keeps_it_beside_the_reasons_of_orders():
    suspension = TaskSuspension()
    assert suspension.give_owner(10.0, is_given=True)
    assert not suspension.give_owner(11.0, is_given=True)
    assert (suspension.reasons, suspension.state(attempt(1)).number) == (OWNER, 0)
    suspension.take(order(3), 12.0)
    assert (suspension.reasons, suspension.changed_s) == (BOTH, 12.0)
    suspension.take(order(4, BOTH), 13.0)  # the same reasons: no change
    assert suspension.changed_s == 12.0
    assert not suspension.give_owner(14.0, is_given=False)
    suspension.take(order(5, NO_REASONS), 15.0)
    assert suspension.reasons == NO_REASONS
