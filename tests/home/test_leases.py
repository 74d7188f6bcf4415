"""Attempts on other machines: how long a home waits for them, and what it says when they are heard.

The home is `ume`, the other machine `b1`. A lease is 100 s unless a test says otherwise: the home's
is over after 101 s and the grace of 10 s.
"""

from __future__ import annotations

import pytest

from iriai.model.reason import Reason, Rule
from iriai.model.records import AttemptResult
from iriai.model.state import EndCause
from iriai.protocol.messages.effects import LinkDown, LinkUp, Part, Wake, WakeAt
from iriai.protocol.messages.scheduling import (
    Accepted,
    Acknowledge,
    Begun,
    Refusal,
    Renew,
    Renewed,
    Run,
    Stop,
)
from tests.home.lone_home import LoneHome, end, match, wants
from tests.support.told import HOME, NOTHING_TOLD, WALL_S, attempt, only

FAR = "b1"
LEASE_S = 100.0
BUSY = Reason(Rule.MACHINE_BUSY, "1 cpu", "0 cpus free", FAR)
OVER_S = 111.0
"""Of the home, from its last word: 1.01 times the lease, and the grace of 10 s."""


def with_run(home: LoneHome | None = None, **changes) -> LoneHome:
    """A home with one job, whose first attempt was sent to the other machine."""
    home = home or LoneHome()
    home.submit(**({"lease_s": LEASE_S} | changes))
    home.tell(match(machine=FAR))
    return home


def wait(home: LoneHome, seconds: float):
    home.now_s += seconds
    return home.tell(Wake(Part.HOME))


def test_a_run_to_another_machine_has_a_lease_and_one_here_has_none():
    home = LoneHome()
    home.submit(array=((1, 2, 1),), is_array=True, lease_s=LEASE_S)
    [far] = home.tell(match(machine=FAR)).node
    [near] = home.tell(match()).node
    assert (far.lease_s, near.lease_s) == (LEASE_S, None)


def test_a_job_of_an_older_version_has_the_usual_lease():
    home = LoneHome()
    home.submit()
    [run] = home.tell(match(machine=FAR)).node
    assert run.lease_s == 1200.0


def test_what_was_never_heard_of_is_repeated_after_its_lease():
    home = with_run()
    assert wait(home, OVER_S - 0.1).node == []
    said = wait(home, 0.1)
    result = only(said.records, AttemptResult)
    assert (result.cause, result.machine) == (EndCause.LOST, FAR)
    assert "b1 had no contact" in result.message
    assert wants(said) == [(1, 1)]
    [again] = home.tell(match()).node
    assert again.attempt == attempt(1, 0, 2)


def test_the_alarm_is_for_when_a_lease_is_over():
    home = LoneHome()
    home.submit(lease_s=LEASE_S)
    said = home.tell(match(machine=FAR))
    assert said.others == [WakeAt(Part.HOME, OVER_S)]


def test_a_short_grace_leaves_time_for_a_kill():
    home = with_run(kill_grace_s=0.0)
    assert wants(wait(home, 102.9)) == []
    assert wants(wait(home, 0.1)) == [(1, 1)]


def test_an_answer_lengthens_all_leases_there():
    home = with_run()
    home.now_s = 90.0
    said = home.tell(Renew(FAR, 7.0))
    assert said.node == [Renewed(HOME, 7.0)]
    wait(home, OVER_S - 0.1)
    assert home.home.job(1).active == 1
    wait(home, 0.1)
    assert home.home.job(1).active == 0


def test_an_answer_to_one_machine_says_nothing_of_another():
    home = with_run()
    home.now_s = 90.0
    home.tell(Renew("b2", 7.0))
    wait(home, OVER_S - 90.0)
    assert home.home.job(1).active == 0


def test_a_refused_attempt_goes_on_at_once():
    home = with_run()
    assert wants(home.tell(Refusal(attempt(1), BUSY))) == [(1, 1)]
    wait(home, OVER_S)
    assert home.home.job(1).ready == 1


def test_lost_attempts_count_as_restarts():
    home = with_run(max_restarts=1)
    wait(home, OVER_S)
    home.tell(match(machine=FAR))
    said = wait(home, OVER_S)
    assert 1 not in home.home.jobs
    assert home.store.finished[1].cause is EndCause.LOST
    assert wants(said) == []


def test_a_task_cancelled_while_its_machine_was_away_ends_cancelled():
    home = with_run()
    home.tell(Begun(attempt(1), FAR, WALL_S))
    home.do(lambda h: h.cancel(1, (), "ann"))
    wait(home, OVER_S)
    assert home.store.finished[1].cause is EndCause.CANCELLED


def test_a_late_end_is_acknowledged_and_dropped():
    home = with_run()
    wait(home, OVER_S)
    said = home.tell(end(attempt(1), machine=FAR))
    assert said.node == [Acknowledge(attempt(1))]
    assert said.records == []


@pytest.mark.parametrize("late", [Begun(attempt(1), FAR, WALL_S), Accepted(attempt(1), FAR)])
def test_other_late_news_is_answered_with_stop(late):
    home = with_run()
    wait(home, OVER_S)
    assert home.tell(late).node == [Stop(attempt(1), EndCause.LOST, 0.0)]


def test_news_of_a_cancelled_task_is_answered_with_stop():
    home = with_run()
    home.do(lambda h: h.cancel(1, (), "ann"))
    said = home.tell(Accepted(attempt(1), FAR))
    assert said.node == [Stop(attempt(1), EndCause.CANCELLED, 10.0)]


def test_only_what_is_current_is_confirmed():
    home = with_run()
    other = attempt(1, 0, 9)
    said = home.tell(Renew(FAR, 5.0, (attempt(1), other)))
    assert said.node == [Stop(other, EndCause.LOST, 0.0), Renewed(HOME, 5.0, (attempt(1),))]


def test_a_machine_that_can_be_reached_again_is_asked_again():
    home = with_run()
    home.tell(LinkDown(FAR))
    said = home.tell(LinkUp(FAR))
    stored = home.home.job(1).spec
    assert said.node == [Run(attempt(1), stored, None, LEASE_S)]
    home.do(lambda h: h.cancel(1, (), "ann"))
    said = home.tell(LinkUp(FAR))
    assert [type(message) for message in said.node] == [Run, Stop]


def test_a_machine_without_attempts_is_asked_nothing():
    home = with_run()
    assert home.tell(LinkUp("b2")) == NOTHING_TOLD
    home.tell(end(attempt(1), machine=FAR))
    assert home.tell(LinkUp(FAR)) == NOTHING_TOLD


def test_a_restarted_home_counts_from_its_restart():
    before = with_run()
    before.tell(Begun(attempt(1), FAR, WALL_S))
    home = LoneHome(before.store, now_s=1000.0)
    assert home.first.node == []
    assert home.first.others == [WakeAt(Part.HOME, 1000.0 + OVER_S)]
    wait(home, OVER_S - 0.1)
    assert home.home.job(1).active == 1
    wait(home, 0.1)
    assert home.home.job(1).ready == 1


def test_a_restarted_home_asks_when_the_machine_can_be_reached():
    home = LoneHome(with_run().store)
    assert home.first.node == []
    [run] = home.tell(LinkUp(FAR)).node
    assert (run.attempt, run.capability) == (attempt(1), None)


def test_leases_of_different_lengths_end_one_by_one():
    home = with_run()
    with_run(home, lease_s=10.0)
    home.tell(match(2, FAR))
    [longer, shorter] = home.home.job(1), home.home.job(2)
    wait(home, 10.1 + 10.0)
    assert (longer.active, shorter.active) == (1, 0)
    wait(home, OVER_S)
    assert longer.active == 0
