"""Running tasks stand aside for higher queues, all their seats together, and take turns."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from iriai.broker.state.preemptible_claims import RETRY_S
from iriai.config.sections import QueueSection
from iriai.model.bounds import NUMBER_MAX
from iriai.model.ids import ReservationId
from iriai.model.resources import Resources
from iriai.model.turn import NEVER, RowSet
from iriai.protocol.messages.reservations import BookedTime
from tests.broker.lone_broker import as_running as running_of
from tests.broker.lone_broker import want
from tests.broker.turning_machines import CPUS, GIB, TurningMachines

EXCLUSIVE, GANG, LOWER_GANG = 1, 2, 3


def test_a_higher_task_freezes_a_lower_one_which_comes_back_when_it_is_over():
    story = TurningMachines()
    story.submit(1, EXCLUSIVE)
    story.submit(2, 0)
    assert (story.running(), story.standing()) == ([2], [1])
    story.end(2)
    assert (story.running(), story.standing()) == ([1], [])


def test_a_task_of_its_own_queue_or_a_lower_one_freezes_nothing():
    story = TurningMachines()
    story.submit(1, EXCLUSIVE)
    story.submit(2, EXCLUSIVE)
    story.submit(3, LOWER_GANG)
    assert (story.running(), story.standing()) == ([1], [])


def test_no_more_stand_than_have_to():
    story = TurningMachines()
    for number in (1, 2):
        story.submit(number, EXCLUSIVE, cpus=2)
    story.submit(3, 0, cpus=2)
    assert (story.running(), story.standing()) == ([1, 3], [2])
    story.submit(4, 0, cpus=2)
    assert (story.running(), story.standing()) == ([3, 4], [1, 2])
    story.end(4)
    assert (story.running(), story.standing()) == ([1, 3], [2])


def test_nothing_stands_for_a_task_that_has_room_beside_it():
    story = TurningMachines()
    story.submit(1, EXCLUSIVE, cpus=2)
    story.submit(2, 0, cpus=2)
    assert (story.running(), story.standing()) == ([1, 2], [])
    assert not any(cycle.turns for _, cycle in story.cycles)


def test_all_seats_of_a_parallel_task_stand_and_run_together():
    story = TurningMachines(machines=2)
    story.submit(1, EXCLUSIVE, ranks=2)
    assert story.running() == [1, 1]
    story.submit(2, 0)
    assert (story.running(), story.standing()) == ([2], [1, 1])
    story.end(2)
    assert (story.running(), story.standing()) == ([1, 1], [])


def test_what_one_that_stands_leaves_idle_elsewhere_serves_lower_ones_until_it_comes_back():
    story = TurningMachines(machines=2)
    story.submit(1, EXCLUSIVE, ranks=2)
    story.submit(2, 0)
    story.submit(3, GANG)
    assert (story.running(), story.standing()) == ([2, 3], [1, 1])
    story.end(2)
    assert (story.running(), story.standing()) == ([1, 1], [3])


def test_memory_that_a_task_keeps_while_it_stands_has_a_higher_one_wait():
    story = TurningMachines()
    story.submit(1, EXCLUSIVE, memory_bytes=6 * GIB)
    story.submit(2, 0, memory_bytes=4 * GIB)
    assert (story.running(), story.standing()) == ([1], [])
    story.end(1)
    assert story.running() == [2]


def test_a_task_in_a_shared_queue_is_never_frozen():
    story = TurningMachines(modes={1: "shared", 2: "gang"})
    story.submit(1, 1)
    story.submit(2, 0)
    assert (story.running(), story.standing()) == ([1], [])


def test_a_task_with_a_whole_machine_is_never_frozen():
    story = TurningMachines()
    story.submit(1, EXCLUSIVE, exclusive=True)
    story.submit(2, 0)
    assert (story.running(), story.standing()) == ([1], [])


def a_stream(limit_s: float | None) -> TurningMachines:
    """A task of two machines stands for hours; in queue 0 one follows another on each of them."""
    story = TurningMachines(machines=2)
    story.submit(1, EXCLUSIVE, ranks=2)
    numbers = iter(range(100, 200))
    running = []
    for _ in range(2):
        running.append(next(numbers))
        story.submit(running[-1], 0, limit_s=limit_s)
    for _ in range(24):
        running.append(next(numbers))
        story.submit(running[-1], 0, limit_s=limit_s)
        story.after(300)
        story.end(running.pop(0))
    return story


def test_what_counts_in_queue_0_by_its_age_gathers_its_cpus_machine_by_machine():
    story = a_stream(600.0)
    assert story.standing() == []


def test_nothing_is_kept_for_it_where_nobody_knows_when_others_end():
    story = a_stream(None)
    assert story.standing() == [1, 1]
    assert all(view.calendar.free.cpus == 0 for view in story.state.machines.values())


def test_one_task_gathers_on_a_machine_who_began_first():
    story = TurningMachines(machines=2)
    story.submit(1, EXCLUSIVE, cpus=3, ranks=2, limit_s=90_000.0)
    story.submit(2, EXCLUSIVE, cpus=1, ranks=2, limit_s=90_000.0)
    for number in (3, 4):
        story.submit(number, 0, limit_s=9_000.0)
    story.after(4_000.0)
    story.end(3)
    story.submit(5, 0, cpus=1, limit_s=9_000.0)
    assert (story.running(), story.standing()) == ([4, 5], [1, 1, 2, 2])
    story.end(4)
    assert (story.running(), story.standing()) == ([1, 1, 5], [2, 2])
    story.end(5)
    assert (story.running(), story.standing()) == ([1, 1, 2, 2], [])


def test_a_queue_that_is_stopped_freezes_what_runs_in_it():
    story = TurningMachines(machines=2)
    story.submit(1, EXCLUSIVE)
    story.submit(2, GANG)
    story.configured(q1=QueueSection(mode="exclusive", state="enabled"))
    assert (story.running(), story.standing()) == ([2], [1])
    [turned] = [each for node in story.nodes.values() for each in node.turns.values()]
    assert turned.is_stopped
    story.configured(q2=QueueSection(mode="gang", state="enabled"))
    assert story.standing() == [1, 2]
    story.configured(q1=QueueSection(mode="exclusive"), q2=QueueSection(mode="gang"))
    assert (story.running(), story.standing()) == ([1, 2], [])


def test_a_queue_that_takes_no_jobs_lets_what_runs_go_on():
    story = TurningMachines()
    story.submit(1, EXCLUSIVE)
    story.configured(q1=QueueSection(mode="exclusive", state="disabled"))
    assert story.running() == [1]


@pytest.mark.parametrize("stands", [True, False])
def test_a_queue_that_becomes_shared_has_all_of_it_run(stands):
    story = TurningMachines(machines=1 + (not stands))
    story.submit(1, GANG)
    story.submit(2, GANG)
    if stands:
        assert story.turn(1) == RowSet(2, 0b01)
        story.end(2)
    story.configured(q2=QueueSection())
    assert story.standing() == []
    assert not story.state.preemptible.tasks


# --- time slices ---------------------------------------------------------------------------------


def test_two_gangs_share_a_machine_in_two_rows_and_one_alone_has_all_of_it():
    story = TurningMachines()
    story.submit(1, GANG)
    assert story.rows() == {}
    story.submit(2, GANG)
    assert story.rows() == {1: 0b01, 2: 0b10}
    story.end(1)
    assert story.rows() == {}
    assert story.running() == [2]


def test_there_are_no_more_rows_than_that_and_one_more_waits():
    story = TurningMachines(rows_max=3)
    for number in (1, 2, 3, 4):
        story.submit(number, GANG)
    assert story.running() == [1, 2, 3]
    assert story.rows() == {1: 0b001, 2: 0b010, 3: 0b100}
    story.end(2)
    assert story.running() == [1, 3, 4]
    assert sorted(story.rows().values()) == [0b001, 0b010, 0b100]


def test_a_gang_without_a_limit_of_memory_shares_with_none():
    story = TurningMachines()
    story.submit(1, GANG)
    story.submit(2, GANG, memory_bytes=0)
    assert story.running() == [1]
    story.end(1)
    story.submit(3, GANG)
    assert story.running() == [2]


def test_memory_of_all_rows_has_to_fit():
    story = TurningMachines()
    story.submit(1, GANG, memory_bytes=5 * GIB)
    story.submit(2, GANG, memory_bytes=5 * GIB)
    assert story.running() == [1]


def test_a_lower_gang_runs_in_what_the_rows_of_higher_ones_leave_idle():
    story = TurningMachines()
    story.submit(1, GANG, cpus=2)
    story.submit(2, GANG, cpus=4)
    story.submit(3, LOWER_GANG, cpus=2)
    assert story.rows() == {1: 0b01, 2: 0b10, 3: 0b01}


def test_a_lower_gang_takes_no_time_from_higher_ones():
    story = TurningMachines()
    story.submit(1, GANG)
    story.submit(2, LOWER_GANG)
    assert (story.running(), story.rows()) == ([1], {})


def test_a_higher_gang_freezes_a_lower_one():
    story = TurningMachines()
    story.submit(1, LOWER_GANG)
    story.submit(2, GANG)
    assert (story.running(), story.standing()) == ([2], [1])
    story.submit(3, GANG)
    assert story.rows() == {1: 0, 2: 0b01, 3: 0b10}
    for number in (2, 3):
        story.end(number)
    assert (story.running(), story.standing()) == ([1], [])


def test_one_gang_of_several_machines_is_in_the_same_row_on_all_of_them():
    story = TurningMachines(machines=2)
    story.submit(1, GANG)
    story.submit(2, GANG, ranks=2)
    story.submit(3, GANG, ranks=2)
    masks: dict[int, set[int]] = {}
    for node in story.nodes.values():
        for each, turned in node.turns.items():
            masks.setdefault(each.number, set()).add(turned.turn.mask)
    assert sorted(story.running()) == [1, 2, 2, 3, 3]
    assert all(len(found) == 1 for found in masks.values())
    assert len(set.union(*masks.values())) == 3


def test_a_shared_task_holds_its_cpus_in_every_row():
    story = TurningMachines()
    story.submit(1, 0, cpus=2)
    story.submit(2, GANG, cpus=2)
    story.submit(3, GANG, cpus=2)
    story.submit(4, GANG, cpus=4)
    assert story.running() == [1, 2, 3]
    assert story.rows() == {2: 0b01, 3: 0b10}


def test_a_higher_task_freezes_gangs_of_all_rows():
    story = TurningMachines()
    story.submit(1, GANG)
    story.submit(2, GANG)
    story.submit(3, EXCLUSIVE)
    assert (story.running(), story.standing()) == ([3], [1, 2])
    story.end(3)
    assert story.rows() == {1: 0b01, 2: 0b10}


def test_a_machine_without_a_good_clock_takes_no_part_in_slices():
    story = TurningMachines(machines=2)
    story.nodes["m0"].has_clock = False
    story.report_all()
    for number in (1, 2, 3, 4):
        story.submit(number, GANG)
    assert len(story.nodes["m0"].running) == 1
    assert len(story.nodes["m1"].running) == 3


def test_what_takes_turns_stands_where_a_machine_loses_the_clock():
    story = TurningMachines()
    story.submit(1, GANG)
    story.submit(2, GANG)
    node = story.nodes["m0"]
    node.has_clock = False
    story.tell(story.idle(node))
    assert (story.running(), story.standing(), story.turn(2)) == ([1], [2], NEVER)
    node.has_clock = True
    story.tell(story.idle(node))
    assert story.rows() == {1: 0b01, 2: 0b10}


# --- time ----------------------------------------------------------------------------------------


def test_what_has_stood_for_long_counts_in_a_higher_queue_and_takes_its_cpus():
    story = TurningMachines(modes={1: "exclusive", 2: "exclusive"}, age_s=100.0)
    story.submit(1, 2)
    story.submit(2, 1)
    assert story.standing() == [1]
    story.after(99.0)
    assert story.standing() == [1]
    story.after(1.0)  # it is of the level of the other, which runs
    assert story.standing() == [1]
    story.after(100.0)
    assert (story.running(), story.standing()) == ([1], [2])


def test_what_was_older_counts_in_its_own_queue_once_it_has_run_as_long():
    story = TurningMachines(modes={1: "exclusive", 2: "exclusive"}, age_s=100.0)
    story.submit(1, 2)
    story.submit(2, 1)
    story.after(100.0)
    story.after(100.0)
    assert story.running() == [1]
    story.after(100.0)
    assert (story.running(), story.standing()) == ([2], [1])


def test_without_ageing_it_stands_until_there_is_room():
    story = TurningMachines(age_s=None)
    story.submit(1, EXCLUSIVE)
    story.submit(2, 0)
    story.after(8000.0)
    assert story.standing() == [1]


def test_one_stands_until_what_has_room_without_it_alone_is_granted_before_a_booking():
    story = TurningMachines()
    story.submit(1, EXCLUSIVE, cpus=2, limit_s=600.0)
    node = story.nodes["m0"]
    booking = BookedTime(ReservationId("ume", 7), Resources(2), 60.0, 3600.0)
    story.tell(story.idle(node, bookings=(booking,)))
    story.submit(2, 0, cpus=2, limit_s=600.0)
    assert (story.running(), story.standing()) == ([2], [1])
    story.after(RETRY_S)
    assert (story.running(), story.standing()) == ([1, 2], [])
    story.submit(3, 0, cpus=2, limit_s=30.0)
    assert (story.running(), story.standing()) == ([2, 3], [1])


# --- machines that know better -------------------------------------------------------------------


def test_a_task_stands_on_all_machines_if_one_has_no_cpus_for_it_and_all_are_told_again():
    story = TurningMachines(machines=2)
    story.submit(1, EXCLUSIVE, ranks=2)
    story.submit(2, 0)
    story.nodes["m1"].refusals = 1
    story.end(2)
    assert story.nodes["m1"].refusals == 0
    assert (story.running(), story.standing()) == ([], [1, 1])
    story.after(RETRY_S)
    assert (story.running(), story.standing()) == ([1, 1], [])


def test_a_machine_that_never_has_the_cpus_is_asked_once_a_second():
    story = TurningMachines()
    story.submit(1, EXCLUSIVE)
    story.submit(2, 0)
    story.nodes["m0"].refusals = 1_000
    story.end(2)
    told = len(story.cycles)
    for _ in range(3):
        story.after(RETRY_S)
        story.tell(story.idle(story.nodes["m0"]))
    assert len(story.cycles) - told == 6  # to run, and to stand again


def test_where_others_have_its_cpus_by_now_it_stands_until_they_end():
    story = TurningMachines(machines=2)
    story.submit(1, EXCLUSIVE, ranks=2)
    story.submit(2, 0)
    node = story.nodes["m1"]
    node.refusals = 1
    late = running_of(want(9, cpus=CPUS))  # of which the broker is told too late
    node.running[late.attempt] = late
    node.is_deaf = True
    story.end(2)
    node.is_deaf = False
    [*_, (_, cycle)] = [each for each in story.cycles if each[0] == "m1"]
    story.tell(story.idle(node, began=(late,)))
    assert (story.running(), story.standing()) == ([9], [1, 1])
    assert cycle.number == story.nodes["m1"].cycle - 1
    story.end(9)
    story.after(RETRY_S)
    assert (story.running(), story.standing()) == ([1, 1], [])


def test_what_is_being_ended_has_its_cpus_until_then_and_nobody_is_told_again():
    story = TurningMachines()
    story.submit(1, EXCLUSIVE)
    story.configured(q1=QueueSection(mode="exclusive", state="enabled"))
    [node] = story.nodes.values()
    [ending] = node.running.values()
    told = len(story.cycles)
    story.tell(story.idle(node, changed=(replace(ending, is_preempted=False),)))
    story.submit(2, 0)
    assert (story.running(), len(story.cycles)) == ([], told)
    story.end(1)
    assert story.running() == [2]


def test_a_machine_that_was_told_nothing_is_told_when_it_reports():
    story = TurningMachines()
    story.submit(1, EXCLUSIVE)
    node = story.nodes["m0"]
    node.is_deaf = True
    story.submit(2, 0)
    assert story.standing() == []
    node.is_deaf = False
    story.tell(story.idle(node, 16, whole=True))
    assert story.standing() == [1]


def test_a_machine_that_took_in_a_word_of_long_ago_is_told_anew():
    story = TurningMachines()
    story.submit(1, EXCLUSIVE)
    [node] = story.nodes.values()
    node.cycle = 50
    story.tell(story.idle(node))
    story.submit(2, 0)
    assert (story.running(), story.standing()) == ([2], [1])


def test_a_new_broker_takes_back_what_another_said_though_nobody_takes_turns():
    story = TurningMachines()
    story.submit(1, GANG)
    story.submit(2, GANG)
    story.end(1)
    story.end(2)
    story.wants.clear()
    told = story.nodes["m0"].cycle
    story.another_broker()
    [*_, (_, cycle)] = story.cycles
    assert (cycle.number, cycle.turns, cycle.matched) == (told + 1, (), ())


def test_a_new_broker_learns_who_stands_and_who_takes_turns():
    story = TurningMachines(machines=2)
    story.submit(1, EXCLUSIVE)
    story.submit(2, GANG)
    story.submit(3, GANG)
    story.submit(4, 0)
    before = story.running(), story.standing(), story.rows("m1")
    story.another_broker()
    assert (story.running(), story.standing(), story.rows("m1")) == before
    story.end(4)
    assert (story.running(), story.standing()) == ([1, 2, 3], [])


def test_a_new_broker_lets_one_go_on_that_nobody_keeps():
    story = TurningMachines(age_s=None)
    story.submit(1, EXCLUSIVE)
    story.submit(2, 0)
    del story.nodes["m0"].running[next(a for a in story.nodes["m0"].running if a.number == 2)]
    del story.wants[2]
    story.another_broker()
    assert (story.running(), story.standing()) == ([1], [])


def test_one_queue_that_is_shared_tells_machines_nothing():
    story = TurningMachines(modes={1: "shared"})
    for number in range(1, 6):
        story.submit(number, number % 3, cpus=1)
    assert story.cycles == []
    assert not story.state.preemptible.tasks


def test_a_machine_that_lies_about_a_seat_keeps_nobody_s_task_from_running():
    story = TurningMachines(machines=2)
    story.submit(1, EXCLUSIVE)
    [home] = [node for node in story.nodes.values() if node.running]
    [liar] = [node for node in story.nodes.values() if not node.running]
    [seat] = home.running.values()
    lie = replace(seat, attempt=seat.attempt.seat(7), is_preempted=True, capability=None)
    story.tell(story.idle(liar, began=(lie,)))
    for _ in range(3):
        story.tell(story.idle(liar, changed=(lie,)))
    story.after(30.0)
    assert not home.running[seat.attempt].is_preempted
    [task] = {id(each): each for each in story.state.preemptible.by_key.values()}.values()
    assert list(task.seats) == [seat.attempt]


def test_a_machine_that_never_freezes_its_seat_keeps_cpus_on_itself_alone():
    story = TurningMachines(machines=3)
    story.submit(1, GANG, ranks=2)
    liar, honest = (node for node in story.nodes.values() if node.running)
    story.submit(2, 0)
    story.submit(3, 0)
    assert story.standing() == [1, 1]
    [seat] = [each for each in liar.running.values() if each.attempt.number == 1]
    story.end(2)
    story.end(3)
    story.configured(q2=QueueSection(mode="gang", state="enabled"))
    for _ in range(3):
        story.tell(story.idle(liar, changed=(replace(seat, is_preempted=False),)))
    free = {name: view.calendar.free.cpus for name, view in story.state.machines.items()}
    assert (free[liar.name], free[honest.name]) == (0, CPUS)


def test_a_machine_that_was_told_as_much_as_there_are_numbers_stops_nobody_else():
    story = TurningMachines(machines=2)
    liar, honest = story.nodes.values()
    story.submit(1, EXCLUSIVE)
    liar.cycle = NUMBER_MAX
    story.tell(story.idle(liar))
    story.submit(2, EXCLUSIVE)
    story.submit(3, 0)
    story.submit(4, 0)
    [runs] = [each.number for each, claim in honest.running.items() if not claim.is_preempted]
    assert (runs in (3, 4), honest.cycle < liar.cycle) == (True, True)


def test_a_machine_that_refuses_before_it_has_heard_of_turns_is_not_blamed():
    story = TurningMachines()
    story.submit(1, EXCLUSIVE)
    [node] = story.nodes.values()
    view = story.state.machines["m0"]
    asked = want(2, "user2", resources=Resources(CPUS, GIB))
    for stamp in range(1, 5):
        story.broker.turn(replace(asked, stamp=stamp))
        assert view.matched, "it is matched, and the other stands"
        story.broker.turn(story.idle(node, 1, spent=tuple(view.matched), cycle=0))
    assert view.back_off.until_s is None


def test_what_is_being_ended_keeps_its_turn_though_its_queue_takes_none_any_more():
    story = TurningMachines(modes={1: "gang", 2: "exclusive"})
    story.submit(1, 1)
    story.submit(2, 1)
    [node] = story.nodes.values()
    first, other = (replace(each, takes_turns=True) for each in node.running.values())
    dropped, other = replace(first, queue=2), replace(other, row=1)
    node.is_deaf = True
    for each in (dropped, dropped, other):
        node.cycle = story.cycles[-1][1].number  # it has heard who is to stand, and is ending both
        story.tell(story.idle(node, changed=(each,)))
    story.state.check()


def test_a_new_broker_has_those_stand_whose_queue_takes_no_turns_any_more():
    story = TurningMachines(modes={1: "gang"})
    [node] = story.nodes.values()
    for number in (1, 2):
        claim = running_of(want(number, cpus=CPUS))
        node.running[claim.attempt] = replace(claim, queue=2, takes_turns=True, row=number - 1)
    node.is_deaf = True
    story.tell(story.idle(node, whole=True))
    story.state.check()
