"""A reserved machine goes out for good: the others open in time, and another takes its place."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

import pytest

from tests.endtoend.booking_stores import kept_by
from tests.endtoend.network import Network, Networked
from tests.endtoend.test_reserved_time import (
    CPUS,
    MACHINES,
    NOTICED_S,
    STARTS_WITHIN_S,
    Story,
    inside_of,
    late_s,
)
from tests.support.waiting import until

pytestmark = pytest.mark.root

AHEAD_S = 40.0
LENGTH_S = 600.0
LOST_S = 5.0
"""A machine that cannot be reached for so long is replaced."""


@pytest.fixture
def network(person):
    made = Network(person)
    for name in MACHINES:
        made.add(name, cpus=CPUS, more=f"[reservations]\nlost_s = {LOST_S}")
    try:
        yield made.start()
    finally:
        made.stop()


def test_a_machine_that_is_gone_is_replaced_when_another_is_free(network, record_property):
    story = Story(network)
    story.reserve(AHEAD_S, LENGTH_S)
    story.submit_begun("stays", evictable=False, enough="stays")
    story.submit("inside", reservation=story.reservation, array=((1, 3, 1),))
    others = (story.home.name, story.home.follows())
    gone = next(each for each in story.nodes if each not in others)
    left = [each for each in story.nodes if each != gone]
    put_out(network.machines[gone])
    until(lambda: story.row().missing == (gone,), "its loss to be noticed", wait_s=NOTICED_S)

    story.sleep_until(story.start_s)
    until(lambda: len(inside_of(story)) == 2, "what runs on the others")
    assert sorted(each.machine for each in inside_of(story)) == left
    assert late_s(story) <= STARTS_WITHIN_S
    record_property("late_s", late_s(story))

    story.judge.say("stays")
    until(lambda: len(inside_of(story)) == 3, "the third to begin in its place", wait_s=NOTICED_S)
    row, free = story.row(), next(each for each in MACHINES if each not in story.nodes)
    assert sorted(row.nodes) == sorted((*left, free))
    assert row.missing == ()
    assert inside_of(story)[-1].machine == free
    story.judge.check_apart()
    machines = [each for each in network.machines.values() if each.name != gone]
    for booking in kept_by(machines).bookings.values():
        assert sorted(booking) == sorted(row.nodes)

    story.judge.say("enough")
    with story.home.client() as client:
        client.wait(list(story.jobs.values()))
    assert story.home.call("reservation", "end", story.reservation).returncode == 0


def put_out(machine: Networked) -> None:
    """Kill all that runs there, as one that loses its power."""
    assert machine.supervisor is not None
    for pid in (machine.supervisor.pid, *machine.processes()):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
