"""What a policy decides about jobs: proposed to their homes, once, where they permit it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from iriai.model.ids import AttemptId, JobId, ReservationId
from iriai.model.policy_terms import JobAction, ProposedValues
from iriai.model.resources import Resources
from iriai.policy.placement.job_decisions import (
    EndJob,
    EndTask,
    HoldJob,
    ModifyJob,
    ReleaseJob,
    RequeueTask,
    SuspendTask,
    UnsuspendTask,
)
from iriai.policy.placement.policy_api import PlanSource, Start
from iriai.protocol.messages.effects import PolicyFailed
from iriai.protocol.messages.proposals import Propose, Proposed
from iriai.protocol.messages.reservations import BookedTime
from iriai.protocol.messages.scheduling import HoldTold, Wants, Withdraw
from tests.broker.lone_broker import LoneBroker, as_running, matches, want
from tests.support.told import HOME, attempt, job

EVERY = tuple(JobAction)


class Night:
    """Decides what the test says, at each call."""

    def __init__(self) -> None:
        self.decisions = lambda view, now: []

    def plan(self, view, now):
        yield from self.decisions(view, now)


class Deciding:
    """A broker with a policy, and a home that permits everything."""

    def __init__(self, permits: tuple[JobAction, ...] = EVERY, *running: AttemptId) -> None:
        self.policy = Night()
        self.broker = LoneBroker(plan=PlanSource(self.policy, "night.py"), order="fifo")
        began = tuple(as_running(want(each.number), attempt_id=each) for each in running)
        self.broker.tell(self.broker.idle(began=began))
        self.broker.tell(Wants(HOME, permits))

    def decide(self, *decisions, after_s: float = 0.0):
        """Have the policy decide this; return what was proposed, and the mistakes."""
        self.broker.now_s += after_s
        self.policy.decisions = lambda view, now: decisions
        said = self.broker.tell(Wants(HOME, self.permits))
        proposed = [each for each in said.home if isinstance(each, Propose)]
        return proposed, [each.message for each in said.others if isinstance(each, PolicyFailed)]

    permits = EVERY

    def look(self, see):
        """Return what `see` makes of the view."""
        seen = []

        def decide(view, now):
            seen.append(see(view))
            return []

        self.policy.decisions = decide
        self.broker.tell(Wants(HOME, self.permits))
        return seen[-1]


def waiting(*numbers: int) -> Deciding:
    deciding = Deciding()
    deciding.broker.tell(*(want(number) for number in numbers))
    return deciding


def test_each_decision_becomes_a_message_to_the_jobs_home():
    running = attempt(2)
    deciding = Deciding(EVERY, running)
    deciding.broker.tell(want(1))
    decisions = [
        (HoldJob(job(1), "operator"), JobAction.HOLD, None),
        (ReleaseJob(job(1)), JobAction.RELEASE, None),
        (ModifyJob(job(1), urgency=2.0), JobAction.MODIFY, None),
        (RequeueTask(running), JobAction.REQUEUE, running),
        (SuspendTask(running), JobAction.SUSPEND, running),
        (UnsuspendTask(running), JobAction.UNSUSPEND, running),
        (EndTask(running), JobAction.END, running),
        (EndJob(job(1)), JobAction.END, None),
    ]
    for decision, action, about in decisions:
        [proposed], mistakes = deciding.decide(decision)
        assert (proposed.action, proposed.attempt, proposed.policy) == (action, about, "Night")
        assert proposed.is_operators is (action is JobAction.HOLD)
        assert not mistakes


def test_numbers_rise():
    deciding = waiting(1, 2)
    proposed, _ = deciding.decide(HoldJob(job(1)), HoldJob(job(2)), ReleaseJob(job(1)))
    numbers = [each.number for each in proposed]
    assert numbers == sorted(set(numbers))


def test_new_values_are_sent_as_they_are():
    deciding = waiting(1)
    [proposed], _ = deciding.decide(ModifyJob(job(1), "later", 1, 2.0, 60.0))
    assert proposed.changes == ProposedValues("later", 1, 2.0, 60.0)


def test_a_decision_that_is_repeated_is_sent_again_after_a_while():
    deciding = waiting(1)
    assert deciding.decide(HoldJob(job(1)))[0]
    assert not deciding.decide(HoldJob(job(1)), after_s=5.0)[0]
    assert deciding.decide(HoldJob(job(1)), after_s=5.0)[0]


def test_the_policy_is_asked_again_by_then():
    deciding = waiting(1)
    deciding.decide(HoldJob(job(1)))
    assert deciding.broker.broker._cycle.plan_driver.wake_s == 10.0


def test_suspending_and_going_on_are_not_the_same():
    deciding = Deciding(EVERY, attempt(2))
    assert deciding.decide(SuspendTask(attempt(2)))[0]
    assert deciding.decide(UnsuspendTask(attempt(2)))[0]


def test_seats_of_one_attempt_are_asked_once():
    deciding = Deciding(EVERY, attempt(2))
    seats = [attempt(2), attempt(2).seat(4)]
    broker = deciding.broker
    second = as_running(want(2), attempt_id=seats[1])
    broker.tell(broker.idle(0, machine="take", began=(second,)))
    proposed, mistakes = deciding.decide(*map(RequeueTask, seats))
    assert [each.attempt for each in proposed] == [attempt(2)]
    assert not mistakes


def test_what_it_holds_is_not_in_the_queue_and_does_not_start():
    deciding = waiting(1, 2)
    deciding.decide(HoldJob(job(1)))
    assert deciding.look(lambda view: [each.id for each in view.queue()]) == [job(2)]
    _, [mistake] = deciding.decide(Start(job(1), HOME))
    assert "ume-1 does not start after hold" in mistake


def test_held_jobs_are_seen():
    deciding = waiting(1)
    held = want(1, count=0, held=HoldTold(3, "policy Night", True), comment="tonight", stamp=9)
    deciding.broker.tell(held)
    [seen] = deciding.look(lambda view: view.held)
    assert (seen.id, seen.tasks, seen.is_policys, seen.comment) == (job(1), 3, True, "tonight")
    assert deciding.look(lambda view: list(view.queue())) == []
    [proposed], _ = deciding.decide(ReleaseJob(job(1)))
    assert proposed.action is JobAction.RELEASE
    deciding.broker.tell(Withdraw(job(1), 10))
    assert deciding.look(lambda view: view.held) == ()


def test_comments_are_seen():
    deciding = Deciding()
    deciding.broker.tell(want(1, comment="tonight"))
    assert deciding.look(lambda view: [each.comment for each in view.queue()]) == ["tonight"]


def test_tasks_show_their_queue_and_what_was_asked_of_them():
    deciding = Deciding(EVERY, attempt(2))
    deciding.decide(RequeueTask(attempt(2)))
    [task] = deciding.look(lambda view: list(view.machines[0].tasks()))
    assert (task.queue, task.asked) == (0, "requeue")


def test_a_policy_may_ask_what_a_home_permits():
    deciding = Deciding((JobAction.HOLD,))
    deciding.permits = (JobAction.HOLD,)
    assert deciding.look(lambda view: view.may(HoldJob, job()))
    assert not deciding.look(lambda view: view.may(EndJob, job()))
    assert not deciding.look(lambda view: view.may(HoldJob, JobId("take", 1)))


# --- mistakes -------------------------------------------------------------------------------------

BAD = {
    "no id": (HoldJob("ume-1"), "'ume-1' is no id of a job; job.id of view.queue()"),
    "unknown": (HoldJob(job(9)), "no job ume-9 is waiting; the id of a job of view.queue()"),
    "no attempt": (RequeueTask(job(1)), "is no attempt; task.attempt of machine.tasks()"),
    "over": (RequeueTask(attempt(9)), "ume-9.0#1 does not run; task.attempt of machine.tasks()"),
    "holder": (HoldJob(job(1), "nobody"), "'nobody' holds nothing; 'user' or 'operator'"),
    "comment": (ModifyJob(job(1), comment="x" * 300), "at most 256 characters"),
    "comment type": (ModifyJob(job(1), comment=b"x"), "b'x' is no comment"),
    "queue": (ModifyJob(job(1), queue=60), "queue 60 takes no jobs; QueueState.number"),
    "queue type": (ModifyJob(job(1), queue="first"), "queue 'first' takes no jobs"),
    "urgency": (
        ModifyJob(job(1), urgency=1e9),
        "1000000000.0 is no urgency; a number from 1 to 1000",
    ),
    "low urgency": (ModifyJob(job(1), urgency=0.5), "0.5 is no urgency"),
    "limit": (ModifyJob(job(1), time_limit_s=float("nan")), "nan is no time limit"),
    "of what runs": (ModifyJob(job(2), urgency=2.0), "no job ume-2 is waiting"),
}


@pytest.mark.parametrize("name", BAD)
def test_nonsense_is_told_with_what_would_do(name):
    decision, words = BAD[name]
    deciding = Deciding(EVERY, attempt(2))
    deciding.broker.tell(want(1))
    proposed, [mistake] = deciding.decide(decision)
    assert not proposed
    assert words in mistake
    assert mistake.startswith("night.py")


def test_what_a_home_does_not_permit_is_told_at_once():
    deciding = Deciding(())
    deciding.permits = ()
    deciding.broker.tell(want(1))
    proposed, [mistake] = deciding.decide(HoldJob(job(1)))
    assert not proposed
    assert "ume does not let a policy hold its jobs" in mistake
    assert "policy_may = ['hold'] under [jobs]" in mistake


def test_a_task_in_a_reservation_is_its_users():
    reservation = ReservationId(HOME, 1)
    deciding = Deciding()
    broker = deciding.broker
    booked = BookedTime(reservation, Resources(2), -10.0, 100.0, Resources(1))
    inside = as_running(want(2), attempt_id=attempt(2))
    inside = replace(inside, reservation=reservation)
    broker.tell(broker.idle(whole=True, bookings=(booked,), began=(inside,)))
    _, [mistake] = deciding.decide(EndTask(attempt(2)))
    assert "ume-2.0#1 runs in reservation ume-r1; its user decides there" in mistake


def test_a_policy_that_holds_what_it_releases_is_stopped():
    deciding = waiting(1)
    for number in range(10):
        proposed, mistakes = deciding.decide((HoldJob, ReleaseJob)[number % 2](job(1)))
        assert proposed
        assert not mistakes
    proposed, [mistake] = deciding.decide(HoldJob(job(1)))
    assert not proposed
    assert "10 different decisions about ume-1 within 10 s" in mistake


def refused(code: str):
    deciding = waiting(1)
    [proposed], _ = deciding.decide(HoldJob(job(1)))
    answer = Proposed(job(1), proposed.number, "it is not yours", "leave it", code)
    said = deciding.broker.tell(answer)
    return [each.message for each in said.others if isinstance(each, PolicyFailed)], deciding


def test_the_refusal_of_a_home_is_told():
    told, deciding = refused("held-by-user")
    assert told == ["night.py: ume-1: it is not yours; leave it"]
    assert deciding.look(lambda view: view.refusal(job(1))) == "it is not yours; leave it"
    assert not deciding.decide(HoldJob(job(1)), after_s=60.0)[0]
    assert deciding.decide(HoldJob(job(1)), after_s=300.0)[0]
    deciding.decide(ReleaseJob(job(1)), after_s=60.0)
    assert deciding.look(lambda view: [each.id for each in view.queue()]) == [job(1)]


def test_what_changed_in_the_meantime_is_nobodys_mistake():
    told, _ = refused("nothing-waits")
    assert not told


def test_an_answer_that_nobody_asked_for_changes_nothing():
    deciding = waiting(1)
    said = deciding.broker.tell(Proposed(job(1), 7, "no", "", "held-by-user"))
    assert not said.others
    [proposed], _ = deciding.decide(HoldJob(job(1)))
    said = deciding.broker.tell(Proposed(JobId("take", 1), proposed.number, "no", "", "x"))
    assert not [each for each in said.others if isinstance(each, PolicyFailed)]
    assert not matches(said)
