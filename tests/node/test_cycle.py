"""Turns as a broker tells them: who stands, who runs in which rows, and no row has too much."""

from __future__ import annotations

from math import inf, nan

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iriai.config.reader import Configuration
from iriai.config.sections import QueueSection
from iriai.machine.node_queues import node_queues
from iriai.model.ids import AttemptId
from iriai.model.records import ClaimStored
from iriai.model.resources import Resources
from iriai.model.state import EndCause
from iriai.model.turn import ALWAYS, NEVER, ROWS_MAX, RowSet
from iriai.model.usage import Usage
from iriai.protocol.clock_offset import Estimate
from iriai.protocol.delivery.authorization import BROKER_ONLY
from iriai.protocol.messages.effects import (
    AttemptsSampled,
    FreezeAttempt,
    LaunchAttempt,
    LauncherAttached,
    OrderCycle,
    Part,
    Wake,
    WakeAt,
)
from iriai.protocol.messages.scheduling import (
    Capability,
    ClaimTurn,
    Cycle,
    MatchTurn,
    Refusal,
    Run,
    Stop,
)
from tests.node.lone_node import exited
from tests.node.turn_story import (
    CHEAP,
    EXCLUSIVE,
    FIRST,
    GANG,
    GIB,
    HIGHER,
    SECOND,
    STOPPED,
    changed,
    frozen,
    orders,
    queues,
)
from tests.node.turn_story import TurnStory as Story
from tests.support.told import WALL_S, Told, attempt, only

# --- who stands ----------------------------------------------------------------------------------


def test_what_is_to_stand_is_frozen_for_a_higher_queue_and_frees_its_cpus_alone():
    story = Story()
    story.run(1, EXCLUSIVE)
    said = story.told({1: NEVER})
    assert frozen(said) == [FreezeAttempt(attempt(1), 1, (HIGHER,))]
    assert story.free == Resources(4, 7 * GIB)
    [running] = story.node.idle.changed
    assert (running.is_preempted, running.kept) == (True, Resources(0, GIB))
    assert story.node.idle.cycle == 1


def test_its_cpus_are_free_at_once_for_the_task_that_comes():
    story = Story()
    story.run(1, EXCLUSIVE)
    story.told({1: NEVER})
    said = story.run(2, 0)
    assert only(said.others, LaunchAttempt).attempt == attempt(2)
    assert story.free.cpus == 0


def test_it_goes_on_when_nothing_is_said_of_it_any_more():
    story = Story()
    story.run(1, EXCLUSIVE)
    story.told({1: NEVER})
    said = story.told({})
    assert frozen(said) == [FreezeAttempt(attempt(1), 2, ())]
    assert (story.free.cpus, changed(story)) == (0, [1])


def test_what_stands_in_a_queue_that_is_stopped_says_so():
    story = Story()
    story.run(1, EXCLUSIVE)
    stopped = (ClaimTurn(attempt(1), NEVER, is_stopped=True),)
    assert frozen(story.say(turns=stopped))[-1].reasons == (STOPPED,)
    assert frozen(story.told({1: NEVER}))[-1].reasons == (HIGHER,)
    assert frozen(story.told({}))[-1].reasons == ()


def test_what_was_not_taken_is_told():
    story = Story()
    story.run(1, EXCLUSIVE)
    story.told({1: NEVER})
    story.run(2, 0)
    story.told({})
    assert (story.turn(1), changed(story)) == (NEVER, [1])
    assert story.node.idle.changed[0].is_preempted


def test_a_broker_takes_what_it_says_of_a_claim_that_is_over_for_said():
    story = Story()
    story.run(1, EXCLUSIVE)
    story.node.tell(exited())
    said = story.told({1: NEVER, 7: FIRST})
    assert (said.others, story.free.cpus) == ([], 4)


def test_what_is_being_ended_is_frozen_no_more_and_keeps_its_cpus_so_long():
    story = Story()
    story.run(1, EXCLUSIVE)
    story.told({1: NEVER})
    story.run(2, EXCLUSIVE)
    story.node.tell(Stop(attempt(2), EndCause.CANCELLED, 10.0))
    story.told({2: NEVER})
    assert (story.turn(1), story.turn(2)) == (NEVER, ALWAYS)
    assert [each.is_preempted for each in story.node.idle.changed] == [False, True]


def test_an_old_word_changes_nothing():
    story = Story()
    story.run(1, EXCLUSIVE)
    story.told({}, number=5)
    for number in (5, 4, 0):
        assert story.told({1: NEVER}, number=number).others == []
    assert story.turn(1) == ALWAYS
    assert story.node.idle.cycle == 5


# --- time slices ---------------------------------------------------------------------------------


def two_gangs(story: Story) -> Told:
    """The first runs, makes room in the second row, and the second starts there."""
    story.run(1, GANG)
    match = MatchTurn(story.node.capabilities[0], SECOND, 1)
    story.told({1: FIRST}, matched=(match,))
    return story.run(2, GANG)


def test_a_claim_that_was_made_while_its_match_was_named_has_the_turn_of_that():
    story = Story()
    two_gangs(story)
    story.told({1: FIRST}, matched=(MatchTurn(story.held(2).capability, SECOND, 1),))
    assert (story.turn(1), story.turn(2)) == (FIRST, SECOND)


def test_what_stands_with_a_turn_of_a_longer_cycle_lengthens_none():
    story = Story()
    story.run(1, GANG, cpus=2)
    story.told({1: RowSet(4, 0b1000)})
    story.told({1: NEVER})
    story.run(2, GANG, cpus=2)
    said = story.told({1: NEVER, 2: FIRST})
    assert [order.rows for order in orders(said)] == [2]


def test_two_gangs_share_four_cpus_and_the_launcher_switches():
    story = Story()
    said = two_gangs(story)
    assert story.free == Resources(0, 6 * GIB)
    [order] = orders(said)
    assert order.rows == 2
    assert {each.attempt.number: each.mask for each in order.turns} == {1: 0b01, 2: 0b10}


def test_the_launcher_is_told_of_turns_before_the_start():
    story = Story()
    said = two_gangs(story)
    kinds = [type(each) for each in said.others if type(each) in (OrderCycle, LaunchAttempt)]
    assert kinds == [OrderCycle, LaunchAttempt]


def test_without_a_turn_there_is_no_room_for_the_second():
    story = Story()
    story.run(1, GANG)
    story.told({1: FIRST})
    assert only(story.run(2, GANG).home, Refusal)


def test_a_turn_that_is_taken_is_none_for_another():
    story = Story()
    story.run(1, GANG)
    match = MatchTurn(story.node.capabilities[0], FIRST, 0)
    story.told({1: FIRST}, matched=(match,))
    assert only(story.run(2, GANG).home, Refusal)


def test_a_turn_of_no_row_is_no_room():
    story = Story()
    match = MatchTurn(story.node.capabilities[0], NEVER)
    story.told({}, matched=(match,))
    assert only(story.run(2, GANG).home, Refusal)


def test_slices_begin_by_the_clock_of_the_broker():
    story = Story()
    offset_s = 0.3
    story.node.node.cycle.clock_of_broker = lambda: Estimate(offset_s, 0.01)
    [order] = orders(two_gangs(story))
    assert (WALL_S + order.row_0_steady_s + offset_s) % 2.0 == pytest.approx(0.0, abs=1e-6)


def test_the_phase_is_compared_again_after_a_while_and_ordered_if_it_is_another():
    story = Story()
    [before] = orders(two_gangs(story))
    story.node.wait(30.0)
    assert orders(story.node.tell(Wake(Part.NODE))) == []
    story.node.node.cycle.clock_of_broker = lambda: Estimate(0.25, 0.01)
    story.node.wait(30.0)
    [order] = orders(story.node.tell(Wake(Part.NODE)))
    assert order.number > before.number
    assert (before.row_0_steady_s - order.row_0_steady_s) % 2.0 == pytest.approx(0.25)


def test_the_launcher_is_told_that_nobody_takes_turns_any_more():
    story = Story()
    two_gangs(story)
    story.node.tell(exited(1))
    [order] = orders(story.told({}))
    assert (order.rows, order.turns) == (0, ())
    assert orders(story.told({})) == []


def test_a_launcher_that_comes_anew_is_told_all():
    story = Story()
    two_gangs(story)
    running = ((attempt(1), WALL_S), (attempt(2), WALL_S))
    [order] = orders(story.node.tell(LauncherAttached(running)))
    assert len(order.turns) == 2


def test_the_cycle_is_that_of_what_takes_turns_not_of_what_is_being_ended():
    story = Story()
    for number in (1, 2):
        story.run(number, GANG, cpus=2)
    story.told({1: RowSet(4, 0b1000), 2: RowSet(4, 0b1)})
    story.node.tell(Stop(attempt(1), EndCause.EVICTED, 10.0))
    matched = (MatchTurn(story.node.capabilities[0], SECOND, 1),)
    [order] = orders(story.told({2: FIRST}, matched=matched))
    assert (order.rows, [each.attempt for each in order.turns]) == (2, [attempt(2)])


def test_a_launcher_that_may_go_by_turns_of_an_earlier_daemon_is_told_once_that_there_are_none():
    story = Story()
    [order] = orders(story.node.tell(LauncherAttached(())))
    assert order.turns == ()
    assert orders(story.told({})) == []


@pytest.mark.parametrize(
    ("estimate", "has_clock"),
    [(Estimate(5.0, 0.09), True), (Estimate(0.0, 0.11), False), (None, False)],
)
def test_a_machine_tells_whether_it_knows_the_broker_s_clock_well_enough(estimate, has_clock):
    story = Story()
    story.node.node.cycle.clock_of_broker = lambda: estimate
    story.run(1, GANG)
    assert story.node.idle.has_clock is has_clock


# --- what does not fit ---------------------------------------------------------------------------


def test_two_that_are_told_the_same_row_do_not_both_get_it():
    story = Story()
    two_gangs(story)
    story.told({1: FIRST, 2: FIRST})
    assert [story.turn(1), story.turn(2)] == [FIRST, NEVER]
    assert changed(story) == [2]


def test_a_turn_is_cut_to_the_rows_that_are_free():
    story = Story()
    two_gangs(story)
    story.told({1: RowSet(3, 0b011), 2: RowSet(3, 0b110)})
    assert [story.turn(1), story.turn(2)] == [RowSet(3, 0b011), RowSet(3, 0b100)]
    assert changed(story) == [1, 2]


def test_a_claim_of_which_nothing_is_said_keeps_its_cpus_in_all_rows():
    story = Story()
    story.run(1, 0, cpus=2)
    story.run(2, GANG, cpus=2)
    match = MatchTurn(story.node.capabilities[0], SECOND, 1)
    story.told({2: FIRST}, matched=(match,))
    assert only(story.run(3, GANG, cpus=4).home, Refusal)
    assert story.turn(1) == ALWAYS


TURNS = st.builds(RowSet, st.integers(1, ROWS_MAX), st.integers(0, (1 << ROWS_MAX) - 1))


@given(st.lists(st.dictionaries(st.integers(1, 5), TURNS), min_size=1, max_size=4))
def test_whatever_a_broker_says_no_row_has_more_than_there_is(words):
    story = Story()
    for number in (1, 2, 3, 4):
        story.run(number, GANG, cpus=1)
    for turns in words:
        match = tuple(
            MatchTurn(capability, turn, 0)
            for capability, turn in zip(story.node.capabilities, turns.values(), strict=False)
        )
        story.told(turns, matched=match)
        for number in range(5, 8):
            if story.node.capabilities:
                story.run(10 * story.number + number, GANG, cpus=2)
        check_rows(story)
    for attempt_ in list(story.node.node.running()):
        story.node.tell(exited(attempt_.number))
    assert story.free == Resources(4, 8 * GIB)


def check_rows(story: Story) -> None:
    claims = [each for each in story.node.node._claims.all() if each.end is None]
    for row in range(ROWS_MAX):
        loads = [
            each.claim.resources.cpus
            for each in claims
            if not each.is_preempted and each.turn.needed >> row & 1
        ]
        assert sum(loads) <= 4
    assert all(each.turn.mask < 1 << each.turn.rows for each in claims)


# --- time and charges ----------------------------------------------------------------------------


def test_time_counts_in_its_own_turn_alone():
    story = Story()
    two_gangs(story)
    story.node.wait(10.0)
    assert story.ran_s(1) == pytest.approx(5.0)
    assert story.ran_s(2) == pytest.approx(5.0)
    story.node.tell(exited(2))
    story.told({})
    story.node.wait(4.0)
    assert story.ran_s(1) == pytest.approx(9.0)


def test_time_in_which_it_stood_does_not_count():
    story = Story()
    two_gangs(story)
    story.node.wait(4.0)
    story.obey(story.told({1: NEVER, 2: SECOND}))
    story.node.wait(100.0)
    story.obey(story.told({1: FIRST, 2: SECOND}))
    story.node.wait(4.0)
    assert story.ran_s(1) == pytest.approx(4.0)
    assert story.ran_s(2) == pytest.approx(54.0)


@given(st.lists(st.tuples(st.sampled_from([FIRST, SECOND, NEVER, ALWAYS]), st.floats(0, 9))))
def test_nobody_runs_for_longer_than_the_time_that_passed(words):
    story = Story()
    story.run(1, GANG)
    ran_s, passed_s = 0.0, 0.0
    for turn, lasted_s in words:
        story.obey(story.told({1: turn}))
        story.node.wait(lasted_s)
        passed_s += lasted_s
        assert ran_s - 1e-9 <= story.ran_s(1) <= passed_s + 1e-9
        ran_s = story.ran_s(1)


def test_it_is_charged_for_its_turns_and_by_the_factor_of_its_queue():
    for queue, factor in ((GANG, 1.0), (CHEAP, 0.5)):
        story = Story()
        story.run(1, queue)
        story.told({1: FIRST})
        story.node.wait(20.0)
        story.node.tell(AttemptsSampled(((attempt(1), Usage()),)))
        assert story.held(1).charged_s == pytest.approx(4 * 10.0 * factor)


def test_its_latest_end_allows_for_all_rows():
    story = Story(queues=queues(rows_max=4))
    story.run(1, GANG, time_limit_s=100.0)
    story.run(2, GANG, cpus=0, time_limit_s=100.0, exclusive=False)
    now = story.node.instant()
    assert story.held(1).stay_left_s(now) >= 400.0
    shared = Story()
    shared.run(1, EXCLUSIVE, time_limit_s=100.0)
    assert shared.held(1).stay_left_s(now) < 200.0


def test_so_does_that_of_a_task_which_goes_on_in_such_a_queue():
    configuration = Configuration(
        queues={
            "1": QueueSection(mode="exclusive", residence_s=60.0),
            "2": QueueSection(residence_s=60.0),
            "3": QueueSection(mode="gang"),
            "4": QueueSection(mode="exclusive", residence_s=60.0),
        }
    )
    assert configuration.turning_queues == {1, 2, 3}
    story = Story(queues=node_queues(configuration))
    story.run(1, 1, time_limit_s=100.0)
    assert story.held(1).stay_left_s(story.node.instant()) >= 400.0


# --- a new daemon --------------------------------------------------------------------------------


def restarted(story: Story) -> tuple[Story, Told]:
    claims = tuple(story.node.node.claims())
    running = tuple((claim.attempt, WALL_S) for claim in claims)
    again = Story(claims=claims, attached=False, now_s=story.node.now_s, incarnation=2)
    return again, again.node.tell(LauncherAttached(running))


def test_a_new_daemon_knows_who_stands_and_whose_turn_it_is():
    story = Story()
    two_gangs(story)
    story.told({1: NEVER, 2: SECOND})
    again, said = restarted(story)
    assert [again.turn(1), again.turn(2)] == [NEVER, SECOND]
    assert again.free == story.free == Resources(0, 6 * GIB)
    assert [order.reasons for order in frozen(said)] == [(HIGHER,)]
    assert [each.attempt for each in orders(said)[-1].turns if each.mask == 0b10] == [attempt(2)]


def test_a_new_daemon_counts_no_turns_before_it_knows_since_when_its_tasks_run():
    story = Story()
    two_gangs(story)
    story.node.wait(10.0)
    claims = tuple(story.node.node.claims())
    again = Story(claims=claims, attached=False, now_s=10.0, incarnation=2)
    again.told({1: ALWAYS, 2: NEVER})
    again.told({1: ALWAYS, 2: NEVER})
    again.say(number=1)
    assert again.node.idle.cycle == 0
    again.node.tell(LauncherAttached(tuple((claim.attempt, WALL_S) for claim in claims)))
    assert again.node.idle.cycle == 2
    assert again.ran_s(1) == pytest.approx(5.0)
    again.node.wait(3.0)
    assert again.ran_s(1) == pytest.approx(8.0)
    assert again.turn(2) == NEVER


def test_what_was_told_is_kept_before_it_is_done():
    story = Story()
    story.run(1, GANG)
    said = story.told({1: FIRST})
    kept = [each.claim for each in said.records if isinstance(each, ClaimStored)]
    assert kept[-1].turn.turn == FIRST


def test_a_new_daemon_takes_any_number_and_says_which_turns_there_are():
    story = Story()
    two_gangs(story)
    again, _ = restarted(story)
    assert again.node.idle.cycle == 0
    again.node.node.resend_report()
    again.node.tell(Wake(Part.NODE))
    assert [running.row for running in again.node.idle.began] == [0, 1]
    again.told({}, number=1)
    assert again.node.idle.cycle == 1


# --- a broker that is none -----------------------------------------------------------------------


def test_only_the_broker_may_tell_of_turns():
    assert Cycle in BROKER_ONLY


@pytest.mark.parametrize("quantum_s", [nan, inf, -inf, 0.0, -1.0, 0.09, 3601.0])
def test_a_slice_of_no_length_is_no_message(quantum_s):
    packed = msgspec.msgpack.encode({"number": 1, "quantum_s": quantum_s})
    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(packed, type=Cycle)


@pytest.mark.parametrize(
    ("turn", "row"),
    [([0, 1], 0), ([17, 1], 0), ([1, 1 << 16], 0), ([1, -1], 0), ([1, 1], 16), ([1, 1], -1)],
)
def test_rows_and_masks_are_bounded(turn, row):
    one = [["ume", 1, 0, 1, 0, 0], turn, row, False]
    packed = msgspec.msgpack.encode({"number": 1, "turns": [one]})
    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(packed, type=Cycle)


@pytest.mark.parametrize("mask", [0b10, 0b110, (1 << ROWS_MAX) - 2])
def test_rows_that_the_cycle_does_not_have_are_no_room(mask):
    story = Story()
    match = MatchTurn(story.node.capabilities[0], RowSet(1, mask), 0)
    story.told({}, matched=(match,))
    assert only(story.run(1, GANG).home, Refusal)


def test_thousands_of_turns_of_what_is_not_here_leave_nothing_behind():
    story = Story()
    story.run(1, GANG)
    strangers = tuple(
        ClaimTurn(AttemptId("yama", number, 0, 1), RowSet(16, 0xFFFF), 15) for number in range(4000)
    )
    matched = tuple(MatchTurn(Capability(9, 9, number, number), FIRST, 0) for number in range(4000))
    story.say(turns=strangers, matched=matched)
    assert (story.turn(1), story.free.cpus, changed(story)) == (ALWAYS, 0, [])
    assert len(story.node.node.claims()) == 1
    story.told({})
    assert story.node.node.cycle.matched == {}


def test_a_turn_named_twice_counts_once():
    story = Story()
    story.run(1, GANG)
    twice = (ClaimTurn(attempt(1), FIRST), ClaimTurn(attempt(1), NEVER))
    story.say(turns=twice)
    assert story.turn(1) == NEVER


def test_a_run_without_a_capability_has_no_turn():
    story = Story()
    two_gangs(story)
    said = story.node.tell(Run(attempt(3), story.spec(GANG), None))
    assert only(said.home, Refusal)


def test_a_clock_that_is_not_known_yet_is_looked_at_again_less_and_less_often():
    story = Story()
    clock: list[Estimate | None] = [None]
    story.node.node.cycle.clock_of_broker = lambda: clock[0]
    said = story.node.tell(Wake(Part.NODE))
    waits = []
    for _ in range(7):
        at_s = story.node.node.cycle.next_look_s
        assert at_s is not None
        waits.append(at_s - story.node.now_s)
        story.node.wait(waits[-1])
        said = story.node.tell(Wake(Part.NODE))
    assert waits == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    assert any(isinstance(each, WakeAt) for each in said.others)
    clock[0] = Estimate(0.0, 0.001)
    story.node.tell(Wake(Part.NODE))
    assert story.node.node.cycle.next_look_s is None
    assert story.node.idle.has_clock
