"""Jobs inside reservations: who may submit them, and what the end of one brings."""

from __future__ import annotations

import pytest

from iriai.home.reservations.jobs_inside import AGAIN_S
from iriai.model.ids import ReservationId
from iriai.model.job import Condition, Dependency
from iriai.model.problem import Refused
from iriai.model.ranks import RankShape
from iriai.model.reason import Reason, Rule
from iriai.model.records import DependencyFailed, JobFinished, ReservationOver
from iriai.model.reservation import ReservationEnd
from iriai.model.state import EndCause
from iriai.protocol.messages.effects import LinkUp, WhyAnswered
from iriai.protocol.messages.scheduling import (
    Decline,
    Explained,
    Match,
    Refusal,
    Run,
    SeatOffer,
    Want,
    Withdraw,
)
from tests.home.lone_home import changes, end, match
from tests.home.reserving import (
    ReservingHome,
    confirmed,
    held,
    named,
    offer,
    refused,
    terms,
)
from tests.support.told import HOME, job, only, spec


@pytest.fixture
def home() -> ReservingHome:
    """With a reservation of ann's that begins in an hour and is as long."""
    home = ReservingHome()
    home.confirmed("a", "b", HOME)
    return home


def test_its_want_names_the_reservation(home):
    said = home.submit(reservation=named())
    assert only(said.broker, Want).reservation == named()
    assert only(home.submit().broker, Want).reservation is None


@pytest.mark.parametrize(
    ("changes", "is_evictable"),
    [
        ({}, True),
        ({"evictable": False}, False),
        ({"time_limit_s": 60.0}, False),
        ({"time_limit_s": 60.0, "evictable": True}, True),
    ],
)
def test_its_want_says_whether_a_task_may_have_to_leave(home, changes, is_evictable):
    assert only(home.submit(**changes).broker, Want).is_evictable is is_evictable


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"reservation": ReservationId("take", 1)}, "reserved-elsewhere"),
        ({"reservation": named(2)}, "no-such-reservation"),
        ({"reservation": named(), "user": "eve"}, "not-reserved-for"),
    ],
)
def test_a_submission_that_may_not_use_it_is_refused_and_leaves_nothing(home, changes, code):
    with pytest.raises(Refused) as raised:
        home.submit(**changes)
    assert raised.value.code == code
    assert raised.value.hint
    assert not home.home.jobs


def test_one_that_is_over_takes_no_more_also_before_the_next_turn(home):
    home.now_s = 7_200.0
    with pytest.raises(Refused, match="ume-r1 is over: ended"):
        home.submit(reservation=named())


def test_until_it_opens_that_is_the_reason(home):
    home.submit(reservation=named())
    [reason] = home.home.explain(1)
    assert reason.rule is Rule.NOT_RESERVED
    assert "ume-r1 to open, at 2027-01-15 09:00:00 UTC" in reason.needed
    home.wait(3_600.0)
    assert home.home.explain(1) == []


def test_at_its_end_what_waits_is_cancelled_and_what_runs_is_left_to_its_node(home):
    home.submit(reservation=named(), array=((1, 3, 1),))
    home.submit()
    attempt = home.start(1, 1)
    said = home.wait(7_200.0)
    assert changes(said) == [ReservationOver(named(), ReservationEnd.ENDED)]
    assert only(said.broker, Withdraw).job.number == 1
    assert not said.node
    job = home.home.jobs[1]
    assert (job.waiting, job.active) == (0, 1)
    assert home.home.jobs[2].waiting == 1
    said = home.tell(end(attempt, EndCause.TIME_LIMIT, None))
    assert only(said.records, JobFinished).cause is EndCause.TIME_LIMIT


def test_a_job_of_which_nothing_ran_has_finished_with_it(home):
    home.submit(reservation=named())
    said = home.cancel()
    assert only(said.records, JobFinished).cause is EndCause.CANCELLED
    assert changes(said) == [ReservationOver(named(), ReservationEnd.CANCELLED)]


def test_what_waits_on_is_a_task_of_none(home):
    home.submit(reservation=named(), or_queue=True)
    want = only(home.cancel().broker, Want)
    assert (want.reservation, want.count) == (None, 1)
    assert home.home.explain(1) == []
    again = home.restarted()
    assert only(again.first.broker, Want).reservation is None
    [run] = again.tell(match(1)).node
    assert run.spec.reservation is None
    finished = only(again.tell(end(run.attempt)).records, JobFinished)
    assert finished.spec.reservation is None


def test_a_task_that_runs_inside_is_of_none_only_when_it_starts_again(home):
    home.submit(reservation=named(), or_queue=True)
    attempt = home.start(1)
    home.wait(3_600.0)
    home.end()
    assert home.home.jobs[1].spec_of(0).reservation == named()
    home.tell(end(attempt, EndCause.EVICTED, None))
    [run] = home.tell(match(1)).node
    assert run.spec.reservation is None
    home.restarted().home.check()


def test_it_starts_as_a_task_of_none(home):
    home.submit(reservation=named(), or_queue=True)
    [inside] = home.tell(match(1)).node
    home.tell(Refusal(inside.attempt, Reason(Rule.MACHINE_BUSY, "a cpu", "none", "ume")))
    home.cancel()
    [run] = home.tell(match(1)).node
    assert (inside.spec.reservation, run.spec.reservation) == (named(), None)


def test_a_match_with_a_machine_that_does_not_have_it_is_declined(home):
    home.submit(reservation=named())
    home.wait(3_600.0)
    said = home.tell(match(machine="oni"))
    assert said.node == []
    assert only(said.broker, Decline).seats == match(machine="oni").seats
    assert not [each for each in said.broker if isinstance(each, Want)]
    assert only(home.wait(AGAIN_S).broker, Want).reservation == named()
    assert not home.wait(AGAIN_S).broker
    assert only(home.tell(match(machine="a")).node, Run).spec.reservation == named()


def test_a_job_on_several_machines_is_inside_on_all_or_none(home):
    home.submit(reservation=named(), shape=RankShape(2, 2))
    home.wait(3_600.0)
    for machines, runs in ((("a", "oni"), 0), (("a", "b"), 2)):
        offers = [SeatOffer(each, match().seats[0].capability, 1) for each in machines]
        said = home.tell(Match(job(1), tuple(offers), 10.0))
        assert sum(isinstance(each, Run) for each in said.node) == runs


def test_a_machine_that_has_not_freed_it_yet_may_still_have_a_task(home):
    """A broker hears of another version from the machines, which are told after the home knows."""
    home.do(lambda core: core.reservations.modify(1, terms(), home.now))
    home.tell(offer("a", "b", version=2))
    home.tell(held("a", 2), held("b", 2))
    home.tell(confirmed("a", 2), confirmed("b", 2))
    assert home.of().nodes == ("a", "b")
    home.submit(reservation=named())
    home.submit(reservation=named())
    home.wait(3_600.0)
    assert only(home.tell(match(1)).node, Run)
    home.tell(refused("a"), refused("b"), refused(HOME))
    assert only(home.tell(match(2)).broker, Decline)


def test_the_jobs_of_one_are_found_without_looking_at_all_others(home):
    home.confirmed("c")
    for _ in range(3):
        home.submit()
        home.submit(reservation=named())
        home.submit(reservation=named(2))
    inside = home.home._inside
    assert inside.of(1) == [2, 5, 8]
    assert inside.of(2) == [3, 6, 9]
    home.do(lambda core: core.cancel(5, (), "ann"))
    assert inside.of(1) == [2, 8]
    assert home.restarted().home._inside.of(1) == [2, 8]
    home.cancel()
    assert sorted(home.home.jobs) == [1, 3, 4, 6, 7, 9]
    assert list(inside._by_reservation) == [2]


def test_a_start_that_is_asked_for_again_may_not_be_outside(home):
    home.submit(reservation=named())
    [run] = home.tell(match(1, machine="a")).node
    home.cancel()
    [again] = (each for each in home.tell(LinkUp("a")).node if type(each) is Run)
    assert (again.attempt, again.spec.reservation) == (run.attempt, named())


def test_a_task_that_was_evicted_after_its_end_does_not_wait_again(home):
    home.submit(reservation=named())
    home.submit(reservation=named(), or_queue=True)
    attempts = [home.start(1), home.start(2)]
    home.wait(3_600.0)
    home.end()
    said = home.tell(*(end(each, EndCause.EVICTED, None) for each in attempts))
    assert only(said.records, JobFinished).number == 1
    assert only(said.broker, Want).job.number == 2


def test_whoever_waited_for_such_a_job_hears_of_its_end(home):
    home.submit(reservation=named())
    after = Dependency(Condition.OK, "ume", 1)
    home.submit(after=(after,))
    said = home.cancel()
    assert DependencyFailed(after, EndCause.CANCELLED) in changes(said)
    assert not home.home.jobs


def test_one_that_waits_for_another_is_cancelled_as_well(home):
    home.submit()
    home.submit(reservation=named(), after=(Dependency(Condition.ANY, "ume", 1),))
    home.cancel()
    assert list(home.home.jobs) == [1]
    home.tell(end(home.start(1)))
    assert not home.home.jobs


def test_a_home_that_comes_back_after_the_end_cancels_what_waited(home):
    home.submit(reservation=named())
    again = home.restarted(later_s=7_200.0)
    assert changes(again.first) == [ReservationOver(named(), ReservationEnd.ENDED)]
    assert not again.home.jobs


def test_a_job_knows_no_reservation_of_whose_number_nothing_is_left(home):
    home.submit(reservation=named(), or_queue=True)
    home.home._reserved.clear()
    home.home.requests.changed(1)
    assert only(home.tell().broker, Want).reservation is None


def test_without_reservations_nothing_of_them_is_loaded():
    home = ReservingHome()
    home.submit()
    assert home.home._reservations is None
    assert spec().reservation is None


# --- why -----------------------------------------------------------------------------------------


def test_a_user_who_is_admitted_no_more_is_told_so(home):
    number = home.confirmed("c", "d", users=("bob",))
    home.submit(user="bob", reservation=named(number))
    without = terms(users=())
    home.do(lambda its: its.reservations.modify(number, without, home.now))
    home.tell(offer("c", "d", version=2, number=number))
    home.tell(*(held(each, 2, number) for each in ("c", "d")))
    home.tell(*(confirmed(each, 2, number) for each in ("c", "d")))
    [admitted, unopened] = home.home.explain(1)
    assert admitted.rule is unopened.rule is Rule.NOT_RESERVED
    assert "ask ann to admit bob again" in admitted.had
    assert "to open" in unopened.needed
    home.wait(3_600.0)
    assert home.home.explain(1) == [admitted]


def test_the_nodes_that_it_lacks_are_named_beside_what_the_broker_says(home):
    home.submit(reservation=named())
    home.tell(refused("b"))
    [_, lacks] = home.home.explain(1)
    assert (lacks.needed, lacks.had) == ("all 3 nodes of ume-r1", "it lacks b; others are sought")
    home.wait(3_600.0)
    assert home.home.explain(1) == []
    busy = Reason(Rule.MACHINE_BUSY, "a cpu", "none", "a")
    said = home.tell(Explained(job(1), (busy,)))
    assert only(said.others, WhyAnswered).reasons == (busy, lacks)


def test_the_broker_alone_says_why_an_ordinary_job_waits(home):
    home.submit()
    home.tell(refused("b"))
    assert home.home.explain_beside(1, ()) == []
