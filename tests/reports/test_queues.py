"""The list of queues: what they take, what waits in them, and who may use them."""

from __future__ import annotations

from iriai.config.sections import QueueSection
from iriai.home.core import Home
from iriai.machine.core import Machine
from iriai.reports.queues import known_queues, queues_for
from iriai.wire.inquiries import decode_response, encode_response
from iriai.wire.machines import QueueTable
from tests.broker.lone_broker import LoneBroker, want
from tests.support.told import HOME, instant

QUEUES = {
    "0": QueueSection(group="staff"),
    "1": QueueSection(time_limit_s=60.0, time_limit_max_s=3600.0),
    "2": QueueSection(state="disabled", mode="gang", residence_s=600.0, charge_factor=0.5),
}


def listed(lone: LoneBroker) -> QueueTable:
    """What crosses a link as it arrives there."""
    machine = Machine(HOME, None, Home(HOME, 1, ()), lone.broker)
    configuration = lone.broker.state.settings.configuration
    known = known_queues(machine, configuration, instant(lone.now_s))
    table = decode_response(encode_response(known))
    assert isinstance(table, QueueTable)
    return table


def test_what_waits_is_counted_by_queue():
    lone = LoneBroker(queues=QUEUES)
    lone.tell(want(1, queue=1, count=5, waited_s=30.0), want(2, "bob", queue=1, waited_s=90.0))
    first, second, third = listed(lone).rows
    assert (first.jobs, first.waiting, first.longest_wait_s) == (0, 0, 0.0)
    assert (second.jobs, second.waiting, second.longest_wait_s) == (2, 6, 90.0)
    assert (second.time_limit_s, second.time_limit_max_s) == (60.0, 3600.0)
    assert (first.group, third.state) == ("staff", "disabled")
    assert (first.mode, third.mode) == ("shared", "gang")
    assert (third.residence_s, third.charge_factor) == (600.0, 0.5)


def test_a_queue_that_is_gone_is_listed_while_jobs_are_in_it():
    lone = LoneBroker()
    lone.tell(want(1, queue=9))
    *_, last = listed(lone).rows
    assert (last.number, last.state, last.jobs) == (9, "gone", 1)


def test_a_user_sees_which_queues_they_may_use():
    lone = LoneBroker(queues=QUEUES)
    configuration = lone.broker.state.settings.configuration
    for groups, is_operator, usable in (
        (("users",), False, [1]),
        (("users", "staff"), False, [0, 1]),
        ((), True, [0, 1]),
    ):
        table = queues_for(listed(lone), configuration, groups, is_operator=is_operator)
        assert [row.number for row in table.rows if row.is_usable] == usable
