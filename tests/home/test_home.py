"""A home keeps what was handed in until its result is stored."""

from __future__ import annotations

import pytest

from iriai.home import completion
from iriai.model.problem import NotFound, Refused
from iriai.model.reason import Reason, Rule
from iriai.model.records import (
    Attempted,
    AttemptResult,
    Cancelled,
    Ended,
    JobAccepted,
    JobFinished,
    Promised,
    Snapshot,
    Started,
)
from iriai.model.state import EndCause, TaskState
from iriai.protocol.messages.effects import JobCompleted
from iriai.protocol.messages.scheduling import (
    Accepted,
    Acknowledge,
    Begun,
    Decline,
    Promise,
    Refusal,
    Run,
    SeatOffer,
    Stop,
    Withdraw,
)
from tests.home.lone_home import CAPABILITY, LoneHome, changes, end, match, wants
from tests.support.told import HOME, NOTHING_TOLD, WALL_S, attempt, job, only, spec

BUSY = Reason(Rule.MACHINE_BUSY, "1 cpu", "0 cpus free", HOME)


def test_a_job_is_kept_and_wanted():
    said = LoneHome().submit(cpus=2)
    assert only(said.records, JobAccepted).number == 1
    assert wants(said) == [(1, 1)]


def test_numbers_go_on_where_they_were():
    first = LoneHome()
    first.submit()
    first.submit()
    again = LoneHome(first.store)
    assert only(again.submit().records, JobAccepted).number == 3


def test_a_match_becomes_an_attempt_that_is_kept_before_it_runs():
    home = LoneHome()
    home.submit()
    said = home.tell(match())
    assert changes(said) == [Attempted(((0, 1),), HOME)]
    assert said.node == [Run(attempt(1, 0, 1), spec(), CAPABILITY)]
    assert said.broker == []  # who matched knows that it is taken


def test_many_matches_of_one_turn_are_one_event():
    home = LoneHome()
    home.submit(array=((1, 9, 1),), is_array=True)
    said = home.tell(match(), match(), match())
    assert changes(said) == [Attempted(((1, 1), (2, 1), (3, 1)), HOME)]


def test_a_match_that_comes_too_often_is_declined():
    home = LoneHome()
    home.submit()
    home.tell(match())
    said = home.tell(match())
    assert said.broker == [Decline(job(1), (SeatOffer(HOME, CAPABILITY),))]
    assert said.records == []


def test_a_match_for_a_job_that_is_not_here_is_declined():
    assert LoneHome().tell(match(7)).broker == [Decline(job(7), (SeatOffer(HOME, CAPABILITY),))]


def test_a_start_is_known_once():
    home = LoneHome()
    home.submit()
    home.tell(match())
    assert home.tell(Accepted(attempt(1), "ume")) == NOTHING_TOLD
    begun = Begun(attempt(1), HOME, WALL_S)
    assert changes(home.tell(begun)) == [Started(((0, 1),))]
    assert home.tell(begun) == NOTHING_TOLD


def test_an_end_is_kept_with_its_result_and_acknowledged():
    home = LoneHome()
    home.submit()
    running = home.start()
    said = home.tell(end(running))
    assert only(said.records, AttemptResult).attempt == running
    assert changes(said) == [Ended(((0, 1, EndCause.COMPLETED, 0, None),))]
    assert only(said.records, JobFinished).cause is EndCause.COMPLETED
    assert said.node == [Acknowledge(running)]
    assert said.others == [JobCompleted(1)]
    assert home.home.outcomes[1].worst.exit_code == 0
    assert home.home.outcomes[1][1:] == (1, 0)


def test_the_end_of_a_short_task_tells_its_start():
    home = LoneHome()
    home.submit()
    home.tell(match())
    said = home.tell(end(attempt(1)))
    assert changes(said) == [Ended(((0, 1, EndCause.COMPLETED, 0, None),))]
    assert home.home.stats.begun == 1


def test_an_end_that_is_repeated_is_only_acknowledged():
    home = LoneHome()
    home.submit()
    running = home.start()
    home.tell(end(running))
    said = home.tell(end(running))
    assert said == NOTHING_TOLD._replace(node=[Acknowledge(running)])


def test_an_end_of_an_earlier_attempt_changes_nothing():
    home = LoneHome()
    home.submit()
    first = home.start()
    home.tell(end(first, EndCause.LOST, None))
    second = home.start()
    assert second == attempt(1, 0, 2)
    said = home.tell(end(first))
    assert said == NOTHING_TOLD._replace(node=[Acknowledge(first)])
    assert home.home.job(1).task_state(0) is TaskState.RUNNING


def test_news_of_another_home_changes_nothing():
    home = LoneHome()
    home.submit()
    home.start()
    other = attempt(1)._replace(home="kaki")
    assert home.tell(end(other)) == NOTHING_TOLD._replace(node=[Acknowledge(other)])


def test_a_lost_attempt_is_wanted_again_at_the_front():
    home = LoneHome()
    home.submit()
    said = home.tell(end(home.start(), EndCause.LOST, None))
    [want] = said.broker
    assert (want.count, want.front) == (1, 1)


def test_a_refused_attempt_uses_up_its_number_only():
    home = LoneHome()
    home.submit(max_restarts=0)
    home.tell(match())
    said = home.tell(Refusal(attempt(1), BUSY))
    assert wants(said) == [(1, 1)]
    assert home.tell(match()).node[0].attempt == attempt(1, 0, 2)


def test_a_refusal_that_is_repeated_changes_nothing():
    home = LoneHome()
    home.submit()
    home.tell(match())
    home.tell(Refusal(attempt(1), BUSY))
    assert home.tell(Refusal(attempt(1), BUSY)) == NOTHING_TOLD


def test_what_fails_is_not_repeated():
    home = LoneHome()
    home.submit()
    said = home.tell(end(home.start(), EndCause.FAILED, 3))
    assert only(said.records, JobFinished).cause is EndCause.FAILED
    assert home.home.outcomes[1][1:] == (0, 1)


# --- cancel, hold, release -----------------------------------------------------------------------


def test_cancelling_what_waits_withdraws_it():
    home = LoneHome()
    home.submit()
    said = home.do(lambda h: h.cancel(1, (), "ann"))
    assert [withdraw.job for withdraw in said.broker] == [job(1)]
    assert changes(said) == [Cancelled((), "ann")]
    assert only(said.records, JobFinished).cause is EndCause.CANCELLED


def test_cancelling_what_runs_stops_it():
    home = LoneHome()
    home.submit(kill_grace_s=3.0)
    running = home.start()
    said = home.do(lambda h: h.cancel(1, (), "ann"))
    assert said.node == [Stop(running, EndCause.CANCELLED, 3.0)]
    assert 1 in home.home.jobs
    assert home.do(lambda h: h.cancel(1, (), "ann")) == NOTHING_TOLD
    home.tell(end(running, EndCause.CANCELLED, None))
    assert 1 not in home.home.jobs


def test_cancelling_one_task_leaves_the_others():
    home = LoneHome()
    home.submit(array=((1, 3, 1),), is_array=True)
    running = home.start()
    said = home.do(lambda h: h.cancel(1, (2,), "ann"))
    assert said.node == []
    assert wants(said) == [(1, 1)]
    assert home.home.job(1).task_state(running.index) is TaskState.RUNNING


def test_cancelling_tasks_that_a_job_does_not_have_changes_nothing():
    home = LoneHome()
    home.submit(array=((1, 9, 2),), is_array=True)
    assert home.home.cancel(1, (2, 4, 50), "ann") == 0
    assert home.home.cancel(1, (0, 1, 2), "ann") == 1
    assert home.home.job(1).waiting == 4


def test_a_job_that_is_held_is_withdrawn_and_comes_back():
    home = LoneHome()
    home.submit()
    [withdraw] = home.do(lambda h: h.hold(1, "ann")).broker
    assert isinstance(withdraw, Withdraw)
    assert withdraw.job == job(1)
    assert home.home.explain(1)[0].rule is Rule.HELD
    assert wants(home.do(lambda h: h.release(1, "ann"))) == [(1, 1)]
    assert home.home.explain(1) == []


def test_holding_twice_is_holding_once():
    home = LoneHome()
    home.submit()
    assert [home.home.hold(1, "ann"), home.home.hold(1, "ann")] == [1, 0]
    assert [home.home.release(1, "ann"), home.home.release(1, "ann")] == [1, 0]


def test_a_job_with_nothing_that_waits_cannot_be_held():
    home = LoneHome()
    home.submit()
    home.start()
    with pytest.raises(Refused):
        home.home.hold(1, "ann")


def test_a_job_may_be_submitted_held():
    home = LoneHome()
    assert wants(home.submit(held=True)) == []
    assert wants(home.do(lambda h: h.release(1, "ann"))) == [(1, 1)]


def test_what_is_not_here_is_not_found():
    home = LoneHome()
    for action in (home.home.job, home.home.explain):
        with pytest.raises(NotFound):
            action(9)
    with pytest.raises(NotFound):
        home.home.cancel(9, (), "ann")


# --- promises, restarts, bounds ------------------------------------------------------------------


def test_a_promise_is_kept_and_repeated():
    home = LoneHome()
    home.submit()
    said = home.tell(Promise(job(1), HOME, 60.0))
    assert changes(said) == [Promised(WALL_S + 60.0, HOME)]
    [want] = LoneHome(home.store, now_s=20.0).first.broker
    assert (want.promised_in_s, want.promised_machine) == (40.0, HOME)


def test_a_promise_for_what_no_longer_waits_is_nothing():
    home = LoneHome()
    home.submit()
    home.start()
    assert home.tell(Promise(job(1), HOME, 60.0)) == NOTHING_TOLD


def test_a_home_that_comes_back_asks_again_for_what_it_does_not_know():
    home = LoneHome()
    home.submit(array=((1, 3, 1),), is_array=True)
    running = home.start()
    [claimed] = home.tell(match()).node
    home.do(lambda h: h.cancel(1, (running.index,), "ann"))
    said = LoneHome(home.store).first
    stored = home.home.job(1).spec
    assert said.node == [
        Run(running, stored, None),
        Stop(running, EndCause.CANCELLED, stored.kill_grace_s),
        Run(claimed.attempt, stored, None),
    ]
    assert wants(said) == [(1, 1)]


def test_what_has_finished_does_not_come_back():
    home = LoneHome()
    home.submit()
    home.tell(end(home.start()))
    again = LoneHome(home.store)
    assert again.home.jobs == {}
    assert again.first == NOTHING_TOLD


def test_events_of_a_job_are_bounded(monkeypatch):
    monkeypatch.setattr(completion, "EVENTS_MAX", 4)
    home = LoneHome()
    home.submit()
    for _ in range(20):
        home.tell(end(home.start(), EndCause.LOST, None))
        assert len(home.store.events[1]) <= 4 + 3
        again = LoneHome(home.store)
        assert again.home.job(1).equals(home.home.job(1))
    assert isinstance(home.store.events[1][0].change, Snapshot)


def test_outcomes_at_hand_are_bounded(monkeypatch):
    monkeypatch.setattr(completion, "OUTCOMES_MAX", 2)
    home = LoneHome()
    for number in (1, 2, 3):
        home.submit()
        home.tell(end(home.start(number)))
    assert list(home.home.outcomes) == [2, 3]
    assert [outcome[1:] for outcome in home.home.outcomes.values()] == [(1, 0), (1, 0)]


def test_of_a_throttled_array_only_so_many_are_wanted_as_may_start():
    home = LoneHome()
    said = home.submit(array=((1, 9, 1),), is_array=True, throttle=2)
    assert wants(said) == [(1, 2)]
    first = home.start()
    home.start()
    [reason] = home.home.explain(1)
    assert (reason.rule, reason.had) == (Rule.ARRAY_THROTTLE, "at most 2 at once, and 2 run")
    assert isinstance(home.tell(match()).broker[0], Decline)
    said = home.tell(end(first))
    assert wants(said) == [(1, 1)]
    assert home.home.explain(1) == []


def test_tasks_that_wait_again_count_for_the_throttle_as_others_do():
    home = LoneHome()
    home.submit(array=((1, 9, 1),), is_array=True, throttle=2)
    runs = [home.start(), home.start()]
    said = home.tell(*(end(each, EndCause.EVICTED, None) for each in runs))
    [want] = said.broker
    assert (want.count, want.front) == (2, 2)


# --- prefetched ----------------------------------------------------------------------------


def test_what_was_handed_out_ahead_is_explained_until_it_starts():
    home = LoneHome()
    home.submit()
    [run] = home.tell(match()).node
    home.tell(Accepted(run.attempt, HOME, is_ahead=True))
    reason = home.home.explain_ahead(run.attempt)
    assert reason.machine == HOME
    assert "prefetched" in reason.had
    home.tell(Begun(run.attempt, HOME, WALL_S))
    assert home.home.explain_ahead(run.attempt) is None


def test_what_waits_for_a_place_no_more_is_not_said_to():
    home = LoneHome()
    home.submit()
    [run] = home.tell(match()).node
    home.tell(Accepted(run.attempt, HOME, is_ahead=True))
    home.tell(Accepted(run.attempt, HOME))
    assert home.home.explain_ahead(run.attempt) is None


def test_what_waited_in_vain_is_explained_no_more_and_waits_again():
    home = LoneHome()
    home.submit()
    [run] = home.tell(match()).node
    home.tell(Accepted(run.attempt, HOME, is_ahead=True))
    home.tell(Refusal(run.attempt, Reason(Rule.MACHINE_BUSY, "a place", "none came", HOME)))
    assert home.home.explain_ahead(run.attempt) is None
    assert home.home.jobs[1].ready == 1
