"""A home obeys the policy of its cluster as far as its operator and the job's user would."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from iriai.home.proposals import OBEYED_MAX
from iriai.model.alteration import Alteration
from iriai.model.ids import AttemptId, JobId
from iriai.model.policy_terms import JobAction, PolicyTerms, ProposedValues, QueueTerms
from iriai.model.problem import Refused
from iriai.model.records import Altered, Cancelled, Commented, Held, Released, Requeued
from iriai.model.state import EndCause, TaskState
from iriai.protocol.messages.effects import LinkUp
from iriai.protocol.messages.proposals import Propose, Proposed
from iriai.protocol.messages.scheduling import Begun, Stop, Want, Wants, Withdraw
from iriai.protocol.messages.suspension import Suspend
from tests.home.lone_home import LoneHome, changes, end, match
from tests.support.told import HOME, WALL_S, attempt, job

POLICY = "policy Night"
QUEUES = (
    QueueTerms(True, None, None),
    QueueTerms(True, None, 3600.0),
    QueueTerms(True, "staff", None),
    QueueTerms(False, None, None),
)
EVERY = PolicyTerms(tuple(JobAction), QUEUES)


class Asking:
    """A home, and the broker whose policy would change its jobs."""

    def __init__(self, terms: PolicyTerms = EVERY, store=None, **fields) -> None:
        self.home = LoneHome(store, policy_terms=terms)
        self.number = 0
        if fields or store is None:
            self.home.submit(**fields)

    def ask(self, action: JobAction, **fields):
        """Propose it; return the answer, and what else was said."""
        self.number += 1
        proposal = Propose(fields.pop("job", job()), 1.0, self.number, "Night", action, **fields)
        said = self.home.tell(proposal)
        [answer] = [each for each in said.broker if isinstance(each, Proposed)]
        assert answer.number == self.number
        return answer, said

    def refusal(self, action: JobAction, **fields) -> str:
        answer, said = self.ask(action, **fields)
        assert answer.refusal
        assert not changes(said)
        return answer.refusal

    @property
    def state(self) -> TaskState:
        return self.home.home.jobs[1].task_state(0)


def test_a_job_is_held_and_released_in_the_name_of_the_policy():
    asking = Asking()
    answer, said = asking.ask(JobAction.HOLD)
    assert not answer.refusal
    assert changes(said) == [Held(POLICY)]
    assert asking.state is TaskState.HELD
    answer, said = asking.ask(JobAction.RELEASE)
    assert not answer.refusal
    assert changes(said) == [Released(POLICY)]
    assert asking.state is TaskState.QUEUED


def test_why_names_the_policy_that_holds_it():
    asking = Asking()
    asking.ask(JobAction.HOLD)
    [reason] = asking.home.home.explain(1)
    assert str(reason) == "held: needs iriai release ume-1; the job is held by policy Night"
    asking = Asking()
    asking.ask(JobAction.HOLD, is_operators=True)
    [reason] = asking.home.home.explain(1)
    assert reason.needed == "iriai release ume-1, by an operator"


def test_what_is_so_already_is_no_event():
    asking = Asking()
    asking.ask(JobAction.HOLD)
    answer, said = asking.ask(JobAction.HOLD)
    assert not answer.refusal
    assert changes(said) == []


def test_its_user_releases_what_a_policy_held_for_users():
    asking = Asking()
    asking.ask(JobAction.HOLD)
    said = asking.home.do(lambda home: home.release(1, "ann"))
    assert changes(said) == [Released("ann")]


def test_only_an_operator_releases_an_operators_hold():
    asking = Asking()
    asking.ask(JobAction.HOLD, is_operators=True)
    with pytest.raises(Refused, match="held by policy Night"):
        asking.home.home.release(1, "ann")
    again = LoneHome(asking.home.store)
    with pytest.raises(Refused, match="held by policy Night"):
        again.home.release(1, "ann")
    assert changes(again.do(lambda home: home.release(1, "root", is_operator=True)))


def test_a_policy_does_not_release_what_a_person_held():
    asking = Asking()
    asking.home.do(lambda home: home.hold(1, "ann"))
    answer, said = asking.ask(JobAction.RELEASE)
    assert answer.refusal == "ume-1 was held by ann, not by a policy"
    assert "iriai release ume-1" in answer.nearest
    assert changes(said) == []


def test_a_task_is_sent_back_to_the_queue():
    asking = Asking()
    asking.home.start()
    answer, said = asking.ask(JobAction.REQUEUE, attempt=attempt())
    assert not answer.refusal
    assert changes(said) == [Requeued(((0, 1),), POLICY)]
    assert said.node == [Stop(attempt(), EndCause.EVICTED, 10.0)]
    asking.home.tell(end(attempt(), EndCause.EVICTED, None))
    assert asking.state is TaskState.QUEUED
    second = asking.home.start()
    assert second == attempt(attempt=2)
    assert asking.state is TaskState.RUNNING


def test_a_task_that_ends_first_is_not_repeated():
    asking = Asking()
    asking.home.start()
    asking.ask(JobAction.REQUEUE, attempt=attempt())
    asking.home.tell(end(attempt()))
    assert 1 not in asking.home.home.jobs


def test_a_home_that_comes_back_sends_the_order_again():
    asking = Asking()
    away = "take"
    [run] = asking.home.tell(match(1, away)).node
    asking.home.tell(Begun(run.attempt, away, WALL_S))
    asking.ask(JobAction.REQUEUE, attempt=attempt())
    again = LoneHome(asking.home.store)
    said = again.tell(LinkUp(away))
    assert Stop(attempt(), EndCause.EVICTED, 10.0) in said.node


def test_a_cancelled_task_stays_cancelled():
    asking = Asking()
    asking.home.start()
    asking.home.do(lambda home: home.cancel(1, (), "ann"))
    _, said = asking.ask(JobAction.REQUEUE, attempt=attempt())
    assert changes(said) == []
    asking.home.tell(end(attempt(), EndCause.EVICTED, None))
    assert 1 not in asking.home.home.jobs


def test_a_task_that_may_run_once_is_not_requeued():
    asking = Asking(max_restarts=0)
    asking.home.start()
    words = asking.refusal(JobAction.REQUEUE, attempt=attempt())
    assert "never runs twice" in words


def test_an_old_attempt_is_not_touched():
    asking = Asking()
    asking.home.start()
    asking.home.tell(end(attempt(), EndCause.EVICTED, None))
    asking.home.start()
    for action in (JobAction.REQUEUE, JobAction.END, JobAction.SUSPEND, JobAction.UNSUSPEND):
        assert asking.refusal(action, attempt=attempt()) == "ume-1.0#1 does not run"
    assert asking.state is TaskState.RUNNING


def test_a_task_is_ended_and_so_is_a_job():
    asking = Asking(array=((0, 2, 1),))
    asking.home.start()
    _, said = asking.ask(JobAction.END, attempt=attempt())
    assert changes(said) == [Cancelled((0,), POLICY)]
    _, said = asking.ask(JobAction.END)
    assert Cancelled((), POLICY) in changes(said)
    asking.home.tell(end(attempt(), EndCause.CANCELLED, None))
    assert 1 not in asking.home.home.jobs


def test_a_task_is_suspended_and_goes_on():
    asking = Asking()
    asking.home.start()
    _, said = asking.ask(JobAction.SUSPEND, attempt=attempt())
    assert said.node == [Suspend(attempt(), 1, True)]
    _, said = asking.ask(JobAction.UNSUSPEND, attempt=attempt())
    assert said.node == [Suspend(attempt(), 2, False)]


def test_a_policy_does_not_wake_what_a_person_suspended():
    asking = Asking()
    asking.home.start()
    asking.home.do(lambda home: home.suspend(1, (), "ann", is_wanted=True))
    words = asking.refusal(JobAction.UNSUSPEND, attempt=attempt())
    assert words == "ume-1.0 was suspended by ann, not by a policy"


def test_values_change_within_what_the_user_could_do():
    asking = Asking(time_limit_s=600.0)
    given_ = ProposedValues(comment="tonight", queue=1, urgency=2.0, time_limit_s=1800.0)
    answer, said = asking.ask(JobAction.MODIFY, changes=given_)
    assert not answer.refusal
    altered, commented = changes(said)
    assert altered.now == Alteration(time_limit_s=1800.0, urgency=2.0, queue=1)
    assert isinstance(altered, Altered)
    assert altered.by == POLICY
    assert commented == Commented("tonight", POLICY)
    again = LoneHome(asking.home.store)
    assert again.home.jobs[1].comment == "tonight"


@pytest.mark.parametrize(
    ("changes_", "words"),
    [
        (ProposedValues(time_limit_s=700.0), "more than its user asked for"),
        (ProposedValues(queue=1, time_limit_s=7200.0), "longer than the 1h00m of queue 1"),
        (ProposedValues(urgency=0.5), "less than that of an ordinary job"),
        (ProposedValues(queue=2), "for the group staff"),
        (ProposedValues(queue=3), "takes no jobs"),
        (ProposedValues(queue=9), "there is no queue 9"),
    ],
)
def test_no_more_than_that(changes_, words):
    asking = Asking(time_limit_s=600.0)
    assert words in asking.refusal(JobAction.MODIFY, changes=changes_)


def test_a_comment_is_written_on_what_runs():
    asking = Asking()
    asking.home.start()
    _, said = asking.ask(JobAction.MODIFY, changes=ProposedValues(comment="until six"))
    assert changes(said) == [Commented("until six", POLICY)]
    answer, _ = asking.ask(JobAction.MODIFY, changes=ProposedValues(urgency=2.0))
    assert answer.code == "nothing-waits"


# --- what is not its business ---------------------------------------------------------------------


@pytest.mark.parametrize("action", list(JobAction))
def test_without_leave_of_its_operator_nothing_is_done(action):
    asking = Asking(PolicyTerms())
    asking.home.start()
    words = asking.refusal(action, attempt=attempt(), changes=ProposedValues(urgency=2.0))
    assert words == f"ume does not let a policy {action} its jobs"


def test_one_action_that_is_permitted_is_no_other():
    asking = Asking(PolicyTerms((JobAction.HOLD,), QUEUES))
    assert not asking.ask(JobAction.HOLD)[0].refusal
    assert "release" in asking.refusal(JobAction.RELEASE)


def test_jobs_of_others_and_jobs_that_are_over_are_not_here():
    asking = Asking()
    assert "another home" in asking.refusal(JobAction.HOLD, job=JobId("take", 1))
    assert "not a job that waits or runs" in asking.refusal(JobAction.HOLD, job=job(7))
    stray = AttemptId(HOME, 1, 5, 1)
    assert "does not run" in asking.refusal(JobAction.END, attempt=stray)


def test_what_comes_again_or_late_is_not_heard():
    asking = Asking()
    asking.ask(JobAction.HOLD)
    asking.home.do(lambda home: home.release(1, "ann"))
    for term, number in ((1.0, 1), (0.5, 99)):
        said = asking.home.tell(Propose(job(), term, number, "Night", JobAction.HOLD))
        assert said.broker == []
        assert asking.state is TaskState.QUEUED
    said = asking.home.tell(Propose(job(), 2.0, 1, "Night", JobAction.HOLD))
    assert changes(said) == [Held(POLICY)]


def test_a_flood_is_refused_until_it_is_over():
    asking = Asking()
    for number in range(OBEYED_MAX):
        asking.ask(JobAction.HOLD if number % 2 else JobAction.RELEASE)
    answer, said = asking.ask(JobAction.RELEASE)
    assert answer.code == "too-many-proposals"
    assert changes(said) == []
    asking.home.now_s += 10.0
    assert not asking.ask(JobAction.RELEASE)[0].refusal


# --- what its broker is told ----------------------------------------------------------------------


def test_a_broker_hears_of_held_jobs_where_a_policy_may_release_them():
    asking = Asking()
    _, said = asking.ask(JobAction.HOLD)
    [want] = [each for each in said.broker if isinstance(each, Want)]
    assert (want.count, want.held.tasks, want.held.by) == (0, 1, POLICY)
    said = asking.home.do(lambda home: home.cancel(1, (), "ann"))
    assert [each.job for each in said.broker if isinstance(each, Withdraw)] == [job()]


def test_nobody_else_tells_of_held_jobs():
    home = LoneHome()
    home.submit()
    said = home.do(lambda core: core.hold(1, "ann"))
    assert [type(each) for each in said.broker] == [Withdraw]


def test_a_broker_is_told_what_it_may_propose():
    home = LoneHome(policy_terms=PolicyTerms((JobAction.HOLD,), QUEUES))
    assert [each for each in home.first.broker if isinstance(each, Wants)] == [
        Wants(HOME, (JobAction.HOLD,))
    ]


# --- laws -----------------------------------------------------------------------------------------

PROPOSALS = st.builds(
    Propose,
    st.sampled_from([job(1), job(2), JobId("take", 1)]),
    st.sampled_from([1.0, 2.0]),
    st.integers(0, 9),
    st.just("Night"),
    st.sampled_from(list(JobAction)),
    st.none() | st.builds(attempt, st.integers(1, 2), st.integers(0, 1), st.integers(1, 3)),
    st.builds(
        ProposedValues,
        st.sampled_from([UNSET, "a", "b"]),
        st.sampled_from([UNSET, 0, 1, 2, 9]),
        st.sampled_from([UNSET, 1.0, 5.0]),
        st.sampled_from([UNSET, 60.0, 7200.0]),
    ),
    st.booleans(),
)


@given(st.lists(PROPOSALS, max_size=20))
def test_whatever_is_proposed_a_restart_finds_the_same_jobs(proposals):
    home = LoneHome(policy_terms=EVERY)
    home.submit(array=((0, 1, 1),), time_limit_s=600.0)
    home.submit(time_limit_s=600.0)
    home.start(1)
    for proposal in proposals:
        home.tell(proposal)
    again = LoneHome(home.store, policy_terms=EVERY)
    for number, known in home.home.jobs.items():
        assert known.equals(again.home.jobs[number])
