"""Of several machines: which one a task gets, which take nothing, what a place on one means."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from iriai.broker.machines.machine_view import FAILURES_MIN, FIRST_S, MATCH_UNTIL_S
from iriai.broker.scheduling.machine_reasons import MACHINES_MAX
from iriai.model.ids import JobId
from iriai.model.reason import Rule
from iriai.model.resources import Resources
from iriai.protocol.messages.effects import LinkDown, WakeAt
from tests.broker.lone_broker import LoneBroker, matches, want
from tests.broker.many_machines import ManyMachines
from tests.support.told import job

FOUR = Resources(4)


def room(*capacities: Resources, **section) -> ManyMachines:
    made = ManyMachines(*(capacities or (FOUR, FOUR)), **section)
    made.report_all()
    return made


# --- which machine -------------------------------------------------------------------------------


def test_the_least_loaded_is_chosen():
    machines = ManyMachines(FOUR, FOUR, FOUR)
    for name, load in (("m0", 2.0), ("m1", 0.5), ("m2", 1.0)):
        machines.nodes[name].load = load
    machines.report_all()
    assert machines.place_of(machines.submit()) == "m1"


def test_relative_to_its_speed():
    machines = ManyMachines(FOUR, FOUR)
    machines.nodes["m0"].load, machines.nodes["m0"].speed = 3.0, 4.0
    machines.nodes["m1"].load, machines.nodes["m1"].speed = 1.0, 1.0
    machines.report_all()
    assert machines.place_of(machines.submit()) == "m0"


def test_for_each_cpu():
    machines = ManyMachines(Resources(2), Resources(8))
    machines.nodes["m0"].load, machines.nodes["m1"].load = 1.0, 2.0
    machines.report_all()
    assert machines.place_of(machines.submit()) == "m1"


def test_matches_of_one_moment_spread():
    machines = room(FOUR, FOUR, FOUR)
    machines.submit(count=6)
    assert sorted(name for _, name in machines.started) == ["m0", "m0", "m1", "m1", "m2", "m2"]


def test_of_those_loaded_alike_the_first_by_name():
    machines = room(Resources(8), Resources(8))
    assert machines.place_of(machines.submit()) == "m0"


# --- one for each machine ------------------------------------------------------------------------


def test_one_task_of_a_user_on_each_machine():
    machines = room(one_per_machine="user")
    first, second = machines.submit("ann", count=3), machines.submit("bob")
    assert sorted(name for number, name in machines.started if number == first) == ["m0", "m1"]
    assert machines.place_of(second)
    [one, other] = machines.why(first)
    assert {one.rule, other.rule} == {Rule.ONE_PER_MACHINE}
    assert "ann" in one.needed
    assert "order.one_per_machine" in one.had
    machines.end(machines.nodes["m1"], next(iter(machines.nodes["m1"].running)))
    assert len([number for number, _ in machines.started if number == first]) == 3


def test_one_task_of_a_group():
    machines = room(FOUR, one_per_machine="group")
    machines.submit("ann")
    assert machines.rules(machines.submit("bob")) == [Rule.ONE_PER_MACHINE]
    assert machines.place_of(machines.submit("eve", group="art"))


def test_a_place_is_not_kept_where_the_user_has_a_task():
    """Nor may another task of the head's user start where its place is."""
    machines = room(one_per_machine="user")
    machines.submit("zoe", cpus=3, limit_s=100.0)
    machines.submit("eve", cpus=3, limit_s=500.0)
    head = machines.submit("ann", cpus=4)
    [reserved] = machines.state.reserved.values()
    assert (reserved.job, reserved.machine) == (job(head), "m0")
    small = machines.submit("ann", limit_s=5.0)
    assert machines.place_of(small) == "m1"


# --- a whole machine -----------------------------------------------------------------------------


def test_a_task_that_runs_alone_takes_an_empty_machine_and_all_of_it():
    machines = room(FOUR, Resources(8))
    machines.submit("bob")
    alone = machines.submit(exclusive=True)
    assert machines.place_of(alone) == "m1"
    assert machines.state.machines["m1"].calendar.free == Resources(0)


def test_it_waits_for_an_empty_machine_and_its_place_is_kept():
    machines = room(FOUR)
    machines.submit("bob", limit_s=50.0)
    alone = machines.submit(exclusive=True)
    assert machines.rules(alone) == [Rule.NOT_EMPTY, Rule.RESERVED]
    later = machines.submit("eve", limit_s=100.0)
    assert machines.rules(later) == [Rule.RESERVED_HEAD_AHEAD]
    machines.end_all("m0")
    assert machines.place_of(alone) == "m0"


# --- machines that are away ----------------------------------------------------------------------


def test_what_cannot_be_reached_is_asked_for_nothing_until_it_has_reported_whole():
    machines = room(FOUR)
    machines.break_link("m0")
    number = machines.submit()
    [reason] = machines.why(number)
    assert reason.rule is Rule.MACHINE_AWAY
    machines.mend_link("m0")
    assert machines.place_of(number) == "m0"


@pytest.mark.parametrize("is_gone", [False, True])
def test_a_match_of_which_nothing_is_heard_waits_again_unless_its_home_is_gone(is_gone):
    broker = LoneBroker()
    assert matches(broker.tell(broker.idle(), replace(want(), job=JobId("w1", 1))))
    if is_gone:
        broker.tell(LinkDown("w1"))
    broker.now_s += MATCH_UNTIL_S
    assert bool(matches(broker.wake())) is not is_gone
    assert not broker.broker.state.queues.entries


def test_what_runs_there_keeps_its_place():
    machines = room(FOUR)
    machines.submit(cpus=3)
    machines.break_link("m0")
    assert machines.state.machines["m0"].calendar.free == Resources(1)


def test_a_head_is_planned_elsewhere_when_its_machine_goes_away():
    machines = room()
    machines.submit("bob", cpus=4, limit_s=50.0)
    machines.submit("bob", cpus=3, limit_s=90.0)
    head = machines.submit(cpus=3)
    assert machines.state.reserved["m0"].job == job(head)
    machines.break_link("m0")
    assert machines.state.reserved["m1"].job == job(head)
    machines.end_all("m1")
    assert machines.place_of(head) == "m1"


def test_a_head_starts_wherever_there_is_room_first():
    machines = room()
    machines.submit("bob", cpus=3, limit_s=50.0)
    machines.submit("bob", cpus=3, limit_s=90.0)
    head = machines.submit(cpus=4)
    assert machines.state.reserved["m0"].job == job(head)
    machines.end_all("m1")
    assert machines.place_of(head) == "m1"
    assert machines.state.reserved == {}


def test_a_head_moves_where_it_can_start_earlier():
    machines = room()
    machines.submit("bob", cpus=2, limit_s=50.0)
    machines.submit("bob", cpus=2, limit_s=90.0)
    for limit_s in (70.0, 10.0):
        machines.submit("eve", cpus=1, limit_s=limit_s)
    head = machines.submit(cpus=4)
    place = next(iter(machines.state.reserved))
    other = {"m0": "m1", "m1": "m0"}[place]
    before_s = machines.state.reserved[place].start_s
    longest = max(machines.nodes[other].running, key=lambda a: machines.wants[a.number].limit_s)
    machines.end(machines.nodes[other], longest)
    [reserved] = machines.state.reserved.values()
    assert reserved.job == job(head)
    assert reserved.start_s <= before_s


def test_a_machine_that_refuses_again_and_again_is_left_alone_for_a_while():
    machines = room(FOUR)
    broker = machines.broker
    said = broker.tell(want(1, count=99, cpus=4))
    for _ in range(FAILURES_MIN):
        [match] = matches(said)
        capability = broker.capabilities(1)
        fields = {"spent": (match.seats[0].capability,), "capabilities": capability}
        said = broker.tell(want(1, count=99, cpus=4), machines.idle(machines.nodes["m0"], **fields))
    assert matches(said) == []
    assert said.others == [WakeAt(said.others[0].part, broker.now_s + FIRST_S)]
    [reason] = machines.why(1)
    assert reason.rule is Rule.BACKED_OFF
    assert "drain" in reason.had
    broker.now_s += FIRST_S
    assert matches(broker.wake())


def test_room_that_came_while_an_account_had_its_cap_is_used_afterwards():
    machines = room(FOUR, FOUR, cap_cpus=3)
    machines.submit("bob", cpus=3)
    machines.submit("eve", cpus=3)
    for _ in range(2):
        machines.submit("ann", cpus=1)
    waiting = machines.submit("ann", cpus=2)
    machines.end(machines.nodes["m1"], next(iter(machines.nodes["m1"].running)))
    assert machines.rules(waiting) == [Rule.RUNNING_CAP]
    [small] = [
        a for a in machines.nodes["m0"].running if machines.wants[a.number].account[1] == "ann"
    ]
    machines.end(machines.nodes["m0"], small)
    assert machines.place_of(waiting) == "m1"


# --- backfill ------------------------------------------------------------------------------------


def test_without_backfill_nothing_passes_a_head():
    machines = room(FOUR, backfill="none")
    machines.submit("bob", cpus=3, limit_s=50.0)
    head = machines.submit(cpus=2)
    short = machines.submit("eve", limit_s=1.0)
    assert machines.rules(short) == [Rule.RESERVED_HEAD_AHEAD]
    machines.end_all("m0")
    assert [number for number, _ in machines.started[1:]] == [head, short]


def test_but_where_it_could_never_run_others_go_on():
    machines = room(Resources(8, 0, 1), FOUR, backfill="none")
    machines.submit("bob", cpus=8)
    machines.submit("bob", resources=Resources(1, 0, 1))
    assert machines.place_of(machines.submit("eve")) == "m1"


@pytest.mark.parametrize("order", ["lottery", "stride", "fifo"])
def test_under_fifo_all_wait_in_one_queue(order):
    machines = room(FOUR, order=order)
    machines.submit("zoe", cpus=4, limit_s=50.0)
    first = machines.submit("ann", cpus=4, waited_s=9.0)
    second = machines.submit("bob", cpus=4, waited_s=5.0)
    machines.end_all("m0")
    if order == "fifo":
        assert machines.place_of(first) == "m0"
        assert machines.waiting[second] == 1


# --- reasons -------------------------------------------------------------------------------------


def test_of_many_machines_alike_a_few_are_told_and_the_others_counted():
    machines = room(*[FOUR] * 20)
    machines.submit("bob", cpus=4, count=20)
    reasons = machines.why(machines.submit(cpus=2))
    assert len(reasons) <= MACHINES_MAX + 3
    assert reasons[-1].had.startswith(f"{20 - MACHINES_MAX} more machines as m")


def test_the_machine_nearest_to_a_start_leads():
    machines = room(FOUR, FOUR)
    machines.submit("bob", cpus=4, count=2)
    machines.drain("m0")
    assert machines.rules(machines.submit())[0] in (Rule.MACHINE_BUSY, Rule.RESERVED)
