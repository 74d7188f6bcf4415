"""A whole policy in the broker: what it decides, and what it may not."""

from __future__ import annotations

import pytest

from examples.fifo import Fifo
from iriai.broker.scheduling.plan_policy import PAUSE_S
from iriai.model.ids import ReservationId
from iriai.model.ranks import RankShape
from iriai.model.reason import Rule
from iriai.model.resources import Resources
from iriai.policy.placement.policy_api import PlannedStart, PlanSource, Start
from iriai.policy.placement.seats import Seat
from iriai.protocol.messages.effects import Part, PolicyFailed, WakeAt
from iriai.protocol.messages.reservations import BookedTime
from iriai.protocol.messages.scheduling import Promise as Told
from tests.broker.lone_broker import LoneBroker, matches, want
from tests.support.told import HOME, instant, job


class Plan:
    """Follows what the test says."""

    def __init__(self, plan) -> None:
        self.wake_s = None
        self._plan = plan

    def plan(self, view, now):
        return self._plan(view, now)


def broker_with(plan, **options) -> LoneBroker:
    broker = LoneBroker(plan=PlanSource(Plan(plan), "mine.py"), **options)
    broker.tell(broker.idle())
    return broker


def started(said) -> list[int]:
    return [match.job.number for match in matches(said)]


def last_first(view, now):
    for each in reversed(list(view.queue())):
        if each.resources.fits_in(view.machines[0].free):
            yield Start(each.id, HOME)


def test_a_policy_starts_what_it_likes():
    broker = broker_with(last_first, order="fifo")
    said = broker.tell(want(1, cpus=3), want(2, cpus=3))
    assert started(said) == [2]


def test_jobs_come_in_the_order_of_the_configuration():
    seen = []

    def look(view, now):
        seen.append([each.id.number for each in view.queue()])
        return []

    broker = broker_with(look, order="fifo")
    broker.tell(want(3, waited_s=5.0), want(1), want(2, urgency=2.0))
    assert seen[-1] == [2, 3, 1]


def test_a_promise_reaches_its_home_and_is_known_again():
    def promise(view, now):
        for each in view.queue():
            assert each.promised_start_s in (None, 50.0)
            yield PlannedStart(each.id, HOME, 50.0)

    broker = broker_with(promise)
    [told] = [message for message in broker.tell(want(1)).home if isinstance(message, Told)]
    assert (told.job, told.machine, told.start_in_s) == (job(1), HOME, 50.0)
    [reason] = broker.broker.explain(job(1), instant(broker.now_s))
    assert reason.rule is Rule.RESERVED


def test_a_mistake_ends_the_pass_and_whoever_waits_is_told():
    def overbook(view, now):
        for each in view.queue():
            yield Start(each.id, HOME)

    broker = broker_with(overbook, order="fifo")
    said = broker.tell(want(1, cpus=3), want(2, cpus=3))
    assert started(said) == [1]
    reason = broker.broker.explain(job(2), instant(broker.now_s))[0]
    assert reason.rule is Rule.POLICY
    assert "mine.py, line" in reason.had
    assert "needs 3 cpus" in reason.had


def test_an_exception_is_a_mistake_too():
    broker = broker_with(lambda view, now: 1 / 0)
    broker.tell(want(1))
    assert "ZeroDivisionError" in broker.broker.explain(job(1), instant(broker.now_s))[0].had


def test_a_policy_is_woken_when_it_asks():
    plan = Plan(lambda view, now: [])
    plan.wake_s = 70.0
    broker = LoneBroker(plan=PlanSource(plan, "mine.py"))
    said = broker.tell(broker.idle())
    assert WakeAt(Part.BROKER, 70.0) in said.others


def test_conservative_gives_everybody_a_place():
    broker = LoneBroker(order="fifo", backfill="conservative")
    broker.tell(broker.idle())
    first = broker.tell(want(1, cpus=3, limit_s=100.0))
    assert started(first) == [1]
    said = broker.tell(
        want(2, cpus=4, limit_s=100.0), want(3, cpus=2, limit_s=10.0), want(4, cpus=1, limit_s=50.0)
    )
    assert started(said) == [4]
    told = [message for message in said.home if isinstance(message, Told)]
    starts = {each.job.number: each.start_in_s for each in told}
    assert starts[2] < starts[3]


@pytest.mark.parametrize("order", ["lottery", "stride", "paper000"])
def test_drawn_orders_give_every_job_once(order):
    seen = []

    def look(view, now):
        seen.append(sorted(each.id.number for each in view.queue()))
        return []

    broker = broker_with(look, order=order)
    broker.tell(*(want(n, user) for n, user in enumerate(("ann", "ben", "ann", "cleo"), 1)))
    assert seen[-1] == [1, 2, 3, 4]


# --- what may not be, and what goes on ------------------------------------------------------------


def failures(said) -> list[str]:
    return [each.message for each in said.others if isinstance(each, PolicyFailed)]


class Once:
    """Decides what the test says for one pass, then nothing."""

    def __init__(self) -> None:
        self.decisions = []
        self.asked = 0

    def plan(self, view, now):
        self.asked += 1
        decisions, self.decisions = self.decisions, []
        return decisions


def deciding(**options) -> tuple[LoneBroker, Once]:
    policy = Once()
    broker = LoneBroker(plan=PlanSource(policy, "mine.py"), **({"order": "fifo"} | options))
    broker.tell(broker.idle())
    return broker, policy


def test_after_a_mistake_the_built_in_order_goes_on():
    broker, policy = deciding()
    policy.decisions = [Start(job(1), "moon")]
    said = broker.tell(want(1), want(2))
    assert started(said) == [1, 2]
    [line] = failures(said)
    assert "there is no machine 'moon', but ume" in line
    assert "\n" not in line


def test_it_is_told_once_until_the_policy_is_asked_again():
    broker, policy = deciding()
    policy.decisions = [Start(job(1), "moon")]
    assert failures(broker.tell(want(1)))
    asked = policy.asked
    assert not failures(broker.tell(want(2)))
    assert policy.asked == asked
    broker.now_s += PAUSE_S
    broker.wake()
    assert policy.asked > asked
    assert broker.broker.policy_mistake is None


def test_the_broker_wakes_when_the_pause_is_over():
    broker, policy = deciding()
    policy.decisions = [Start(job(1), "moon")]
    said = broker.tell(want(1))
    assert WakeAt(Part.BROKER, PAUSE_S) in said.others


def paused(*wanted) -> tuple[LoneBroker, Once]:
    """The built-in order has decided about these until now."""
    broker, policy = deciding()
    policy.decisions = [Start(job(1), "moon")]
    broker.tell(*wanted)
    assert broker.broker.state.heads.planned()
    broker.now_s += PAUSE_S
    return broker, policy


FIRST, HEAD = want(1, cpus=3, limit_s=50.0), want(2, cpus=4, limit_s=50.0)


def promised(said) -> list[tuple[int, float | None]]:
    told = [message for message in said.home if isinstance(message, Told)]
    return [(message.job.number, message.start_in_s) for message in told]


def test_what_the_built_in_order_keeps_a_place_for_is_promised_to_the_policy():
    broker, policy = paused(FIRST, HEAD)
    seen = []
    policy.plan = lambda view, now: seen.extend(view.queue()) or []
    broker.tell(want(3, cpus=4))
    assert not broker.broker.state.heads.planned()
    starts = {each.id: each.promised_start_s for each in seen}
    assert starts[job(2)] is not None
    assert starts[job(3)] is None


def test_what_the_policy_does_not_renew_lapses_and_its_home_is_told():
    broker, _ = paused(FIRST, HEAD)
    assert promised(broker.wake()) == [(2, None)]
    assert promised(broker.tell(want(3))) == []


def test_what_it_renews_stands_as_it_was_told():
    broker, policy = paused(FIRST, HEAD)
    [planned] = broker.broker.state.heads.planned()
    policy.decisions = [planned]
    assert promised(broker.wake()) == []
    seen = []
    policy.plan = lambda view, now: seen.extend(view.queue()) or []
    broker.tell(want(3, cpus=4))
    assert {each.id: each.promised_start_s for each in seen}[job(2)] == planned.start_s


def test_a_promise_of_the_built_in_order_is_not_in_the_way_of_a_policy_that_gives_none():
    """The first in the queue may start; the built-in order had promised its place to another."""
    broker, policy = paused(FIRST, HEAD)
    policy.plan = Fifo().plan
    said = broker.tell(want(3, waited_s=99.0, limit_s=500.0))
    assert started(said) == [3]
    assert promised(said) == [(2, None)]
    assert broker.broker.policy_mistake is None


def test_what_the_policy_had_promised_before_its_mistake_does_not_lapse():
    broker, policy = deciding()
    broker.tell(FIRST)
    policy.decisions = [Start(job(1), HOME), PlannedStart(job(2), HOME, 55.0)]
    broker.tell(HEAD)
    policy.decisions = [7]
    assert failures(broker.tell(want(3, cpus=4, limit_s=50.0)))
    broker.now_s += PAUSE_S
    assert promised(broker.wake()) == []


def test_what_the_policy_promised_the_built_in_order_keeps():
    broker, policy = deciding()
    policy.decisions = [PlannedStart(job(1), HOME, 0.0), 7]
    said = broker.tell(want(1, cpus=4, limit_s=50.0), want(2, cpus=1, waited_s=9.0))
    assert "7 is not a decision" in failures(said)[0]
    assert started(said) == [1]


NONSENSE = [
    None,
    7,
    "start",
    Start("ume-1", HOME),
    Start([], HOME),
    Start(None),
    Start(job(99), HOME),
    Start(job(1), None),
    Start(job(1), 7),
    Start(job(1), seats="ume"),
    Start(job(1), seats=((HOME, -1),)),
    Start(job(1), seats=((HOME, 1), (HOME, 1))),
    Start(job(1), seats=((HOME, 1 << 40),)),
    Start(job(1), seats=(None,)),
    PlannedStart("ume-1", HOME, 1.0),
    PlannedStart(job(1), 7, 1.0),
    PlannedStart(job(1), HOME, "now"),
    PlannedStart(job(1), HOME, float("inf")),
    PlannedStart(job(1), HOME, True),
    PlannedStart(job(1), HOME, 1.0, pool=7),
    PlannedStart(job(1), "", 1.0, seats=((7, 7),)),
    PlannedStart(job(1), "", 1.0, seats=7),
]


@pytest.mark.parametrize("nonsense", NONSENSE, ids=repr)
def test_nonsense_is_one_line_and_the_broker_goes_on(nonsense):
    broker, policy = deciding()
    policy.decisions = [nonsense]
    said = broker.tell(want(1))
    assert len(failures(said)) == 1
    assert started(said) == [1]


@pytest.mark.parametrize("nonsense", [None, 7, object()], ids=["None", "7", "an object"])
def test_what_is_no_list_of_decisions_is_told(nonsense):
    broker, policy = deciding()
    policy.decisions = nonsense
    said = broker.tell(want(1))
    assert "return a list of decisions, or yield them" in failures(said)[0]
    assert started(said) == [1]


def test_a_refusal_names_the_nearest_that_would_do():
    broker, policy = deciding()
    broker.tell(broker.idle(machine="b2", capacity=Resources(8, 8 << 30)))
    policy.decisions = [Start(job(1), HOME)]
    [line] = failures(broker.tell(want(1, cpus=6)))
    assert "do not match" in line
    assert "it could start now on b2" in line


def test_without_room_now_it_names_the_earliest_start():
    broker, policy = deciding()
    policy.decisions = [Start(job(1), HOME), Start(job(2), HOME)]
    said = broker.tell(want(1, cpus=3, limit_s=95.0), want(2, cpus=3))
    assert started(said) == [1]
    assert "ume has 1 cpus" in failures(said)[0]
    assert "it fits on ume in 100 s" in failures(said)[0]


def test_a_start_that_breaks_a_promise_is_refused():
    broker, policy = deciding()
    policy.decisions = [PlannedStart(job(1), HOME, 100.0), Start(job(2), HOME)]
    said = broker.tell(want(1, cpus=4, limit_s=50.0), want(2, cpus=1, limit_s=500.0))
    [line] = failures(said)
    assert "ume-2 would be in the way of ume-1, which was promised ume in 100 s" in line
    assert "it fits on ume in 1" in line


def test_a_start_that_ends_before_a_promise_is_carried_out():
    broker, policy = deciding()
    policy.decisions = [PlannedStart(job(1), HOME, 100.0), Start(job(2), HOME)]
    said = broker.tell(want(1, cpus=4, limit_s=50.0), want(2, cpus=1, limit_s=50.0))
    assert (failures(said), started(said)) == ([], [2])


def test_two_promises_of_one_place_cannot_be():
    broker, policy = deciding()
    policy.decisions = [PlannedStart(job(1), HOME, 100.0), PlannedStart(job(2), HOME, 100.0)]
    wants = want(1, cpus=3, limit_s=50.0), want(2, cpus=3, limit_s=50.0)
    [line] = failures(broker.tell(*wants))
    assert "ume does not have in 100 s beside tasks, reservations and promises" in line


def test_a_promise_may_not_lie_in_a_booking():
    broker, policy = deciding()
    booked = BookedTime(ReservationId("ume", 7), Resources(4), 100.0, 200.0, None)
    broker.tell(broker.idle(0, whole=False, bookings=(booked,)))
    policy.decisions = [PlannedStart(job(1), HOME, 150.0)]
    [line] = failures(broker.tell(want(1, limit_s=60.0)))
    assert "beside tasks, reservations" in line
    assert "it fits on ume in 0 s" in line


def test_a_start_may_not_run_into_a_booking():
    broker, policy = deciding()
    booked = BookedTime(ReservationId("ume", 7), Resources(4), 100.0, 200.0, None)
    broker.tell(broker.idle(0, whole=False, bookings=(booked,)))
    policy.decisions = [Start(job(1), HOME)]
    said = broker.tell(want(1, limit_s=600.0))
    assert "and reservations" in failures(said)[0]
    assert started(said) == []


def test_a_promise_of_several_machines_keeps_its_places():
    broker, policy = deciding()
    broker.tell(broker.idle(machine="b2"))
    shape = RankShape(8, 8)
    seats = (Seat(HOME, 4), Seat("b2", 4))
    policy.decisions = [PlannedStart(job(1), "", 100.0, seats=seats), Start(job(2), "b2")]
    said = broker.tell(want(1, shape=shape, limit_s=50.0), want(2, limit_s=500.0))
    assert "ume-2 would be in the way of ume-1, which was promised b2" in failures(said)[0]


def test_a_promise_that_is_due_is_not_put_off():
    broker, policy = deciding()
    policy.decisions = [PlannedStart(job(1), HOME, 5.0)]
    broker.tell(want(1, limit_s=50.0))
    broker.now_s = 9.0
    policy.decisions = [PlannedStart(job(1), HOME, 9.0)]
    said = broker.tell(want(2))
    assert not [message for message in said.home if isinstance(message, Told)]
    assert (failures(said), broker.broker._cycle.plan_driver.promised[job(1)].start_s) == ([], 5.0)
