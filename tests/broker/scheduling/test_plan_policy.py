"""A whole policy in the broker: what it decides, and what it may not."""

from __future__ import annotations

import pytest

from iriai.model.reason import Rule
from iriai.policy.placement.policy_api import PlannedStart, PlanSource, Start
from iriai.protocol.messages.effects import Part, WakeAt
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
