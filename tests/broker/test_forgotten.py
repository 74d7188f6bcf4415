"""A machine that is gone for good: the broker keeps nothing of it, until it reports again."""

from __future__ import annotations

import pytest

from iriai.model.problem import Refused
from iriai.model.resources import Resources
from iriai.protocol.messages.scheduling import Promise
from tests.broker.many_machines import ManyMachines
from tests.support.told import instant, told

FOUR = Resources(4)


def room(*capacities: Resources, **section) -> ManyMachines:
    made = ManyMachines(*(capacities or (FOUR, FOUR)), **section)
    made.report_all()
    return made


def test_what_it_ran_counts_no_more():
    machines = room(FOUR, cap_cpus=4)
    machines.submit(resources=FOUR)
    later = machines.submit()
    machines.break_link("m0")
    machines.forget("m0")
    assert machines.state.machines == {}
    assert machines.state.usage.running_cpus(machines.wants[later].account) == 0


def test_it_is_known_anew_when_it_reports():
    machines = room(FOUR)
    running = machines.submit(resources=Resources(3))
    machines.break_link("m0")
    machines.forget("m0")
    waits = machines.submit(resources=Resources(2))
    fits = machines.submit(resources=Resources(1))
    machines.mend_link("m0")
    assert machines.started == [(running, "m0"), (fits, "m0")]
    machines.end_all("m0")
    assert machines.place_of(waits) == "m0"


def test_a_machine_that_is_there_is_not():
    machines = room()
    with pytest.raises(Refused, match="m0 is online"):
        machines.forget("m0")
    assert set(machines.state.machines) == {"m0", "m1"}


def test_one_that_nobody_knows_is_forgotten_already():
    machines = room()
    machines.forget("m9")
    assert set(machines.state.machines) == {"m0", "m1"}


def test_what_the_directory_forgot_is_dropped_at_the_latest_when_it_is_away():
    machines = room()
    now = instant(machines.broker.now_s)
    machines.break_link("m0")
    for name in ("m0", "m1", "m9"):
        machines.broker.broker.member_forgotten(name, now)
    assert set(machines.state.machines) == {"m1"}
    machines.break_link("m1")
    assert machines.state.machines == {}


def test_a_place_that_was_kept_there_is_promised_no_more():
    machines = room(Resources(8), FOUR)
    machines.submit(resources=Resources(8), limit_s=100.0)
    large = machines.submit(resources=Resources(8), limit_s=100.0)
    assert machines.state.reserved["m0"].job.number == large
    machines.break_link("m0")
    machines.broker.broker.forget_machine("m0", instant(machines.broker.now_s))
    promises = [each for each in told(machines.broker.turn()).home if isinstance(each, Promise)]
    assert [(each.job.number, each.start_in_s) for each in promises] == [(large, None)]
    assert machines.state.reserved == {}
    assert machines.place_of(machines.submit(resources=FOUR)) == "m1"


def test_what_fits_nowhere_else_stands_aside():
    machines = room(Resources(8), FOUR)
    machines.break_link("m0")
    machines.submit(resources=Resources(8))
    [kind] = machines.state.queues.classes
    assert kind.is_possible
    machines.forget("m0")
    assert not kind.is_possible


def test_requirements_are_not_looked_for_there_any_more():
    machines = room()
    machines.break_link("m0")
    waits = machines.submit(requirements='Machine == "m0"')
    machines.forget("m0")
    assert machines.state.matching.begin().row("m0") is None
    assert machines.started == []
    machines.mend_link("m0")
    assert machines.place_of(waits) == "m0"
