"""What waits in a higher queue comes first; what has waited long counts in a higher one."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from iriai.config.sections import QueueSection
from iriai.model.reason import Rule
from iriai.model.resources import Resources
from iriai.protocol.messages.effects import LinkDown
from tests.broker.lone_broker import LoneBroker, as_running, matched, numbers, promises, want
from tests.broker.scheduling.test_plan_policy import broker_with
from tests.broker.scheduling.test_prefetch import Pair
from tests.broker.test_reserved_heads import busy, ended
from tests.broker.wide_matches import CPUS, WideMatches
from tests.support.told import instant, job

ORDERS = ("lottery", "paper000", "stride", "fifo")
ONE_CPU = Resources(1)


def full(**fields) -> LoneBroker:
    """One cpu, which is busy until `ended(broker, 100)`."""
    broker = LoneBroker(**fields)
    busy(broker, 50.0, cpus=1)
    return broker


def next_of(broker: LoneBroker, over: int = 100) -> list[int]:
    """The job that starts when that one has ended."""
    return numbers(matched(ended(broker, over, cpus=1)))


@pytest.mark.parametrize("order", ORDERS)
def test_the_higher_queue_comes_first_in_every_order(order):
    broker = full(order=order)
    broker.tell(want(1, "ann", queue=2, waited_s=500.0))
    broker.tell(want(2, "bob", queue=1, urgency=9.0))
    broker.tell(want(3, "cleo", queue=0), want(4, "dora", queue=1))
    assert next_of(broker) == [3]


@pytest.mark.parametrize("order", ORDERS)
def test_a_lower_queue_gets_what_is_left(order):
    broker = LoneBroker(order=order)
    said = broker.tell(broker.idle(), want(1, queue=2, count=9), want(2, "bob", cpus=3))
    assert sorted(numbers(matched(said))) == [1, 2]


def test_an_account_goes_on_with_its_next_queue_when_nothing_of_the_first_fits():
    broker = LoneBroker()
    busy(broker, 50.0)  # of four cpus one
    said = broker.tell(
        want(1, cpus=4), want(2, queue=1, limit_s=30.0), want(3, "bob", queue=1, limit_s=30.0)
    )
    assert sorted(numbers(matched(said))) == [2, 3]


def test_nobody_starts_from_a_lower_queue_while_the_same_place_serves_a_higher_one():
    for seed in range(20):
        broker = LoneBroker(seed=seed)
        wants = [want(n, f"user{n}", queue=n % 3) for n in range(1, 13)]
        said = broker.tell(*wants, broker.idle())
        assert {number % 3 for number in numbers(matched(said))} == {0}


def test_the_place_of_a_lower_head_goes_to_a_higher_queue():
    broker = LoneBroker()
    busy(broker, 50.0, 50.0)
    assert promises(broker.tell(want(1, cpus=4, queue=1, limit_s=60.0))) == [(1, 50.0)]
    said = broker.tell(want(2, "bob", cpus=4, limit_s=85.0))
    assert promises(said) == [(2, 50.0), (1, None)]
    *_, behind, others = broker.broker.explain(job(1), instant(0.0))
    assert (behind.rule, others.rule) == (Rule.HIGHER_QUEUE, Rule.HIGHER_QUEUE)
    assert f"{job(2)} of queue 0" in behind.had
    assert "1 task waits there" in others.had
    assert numbers(matched(ended(broker, 100, 101))) == [2]


def test_a_lower_head_keeps_its_promise_beside_what_a_higher_queue_starts():
    broker = LoneBroker()
    busy(broker, 50.0, 50.0)
    broker.tell(want(1, cpus=4, queue=1))
    said = broker.tell(want(2, "bob", limit_s=20.0))
    assert (numbers(matched(said)), promises(said)) == ([2], [])


def test_a_promise_moves_later_where_a_higher_queue_takes_the_place():
    broker = LoneBroker()
    busy(broker, 50.0, 50.0)
    broker.tell(want(1, cpus=4, queue=1))
    said = broker.tell(want(2, "bob", limit_s=85.0))
    assert (numbers(matched(said)), promises(said)) == ([2], [(1, 90.0)])


def test_what_has_waited_counts_in_a_higher_queue():
    broker = full(order="fifo", age_s=100.0)
    broker.tell(want(1, queue=2, waited_s=150.0), want(2, "bob", queue=1))
    broker.now_s = 49.0
    broker.tell(want(3, "cleo", queue=0))
    broker.now_s = 50.0  # job 1 has waited 200 s
    broker.wake()
    assert next_of(broker) == [1]


def test_the_broker_wakes_when_a_job_rises():
    broker = full(age_s=100.0)
    said = broker.tell(want(1, queue=2, waited_s=30.0))
    assert [each.steady_s for each in said.others if hasattr(each, "steady_s")][-1] == 70.0
    broker.now_s = 70.0
    broker.wake()
    assert broker.broker.state.queues.level_of(job(1)) == 1


def test_without_ageing_a_lower_queue_waits_for_ever():
    broker = full(age_s=None)
    broker.tell(want(1, queue=1, waited_s=1e9), want(2, "bob"))
    assert next_of(broker) == [2]


def test_what_was_matched_in_vain_waits_in_its_queue_again():
    broker = LoneBroker()
    said = broker.tell(broker.idle(1, machine="kaki", capacity=ONE_CPU), want(1, queue=2))
    assert numbers(matched(said)) == [1]
    broker.tell(LinkDown("kaki"))
    broker.broker.forget_machine("kaki", instant(0.0))
    assert broker.broker.state.queues.level_of(job(1)) == 2
    assert broker.broker.state.queues.lower == 1


def test_a_job_may_move_to_another_queue():
    broker = full()
    broker.tell(want(1, queue=2), want(2, "bob", queue=1))
    broker.tell(want(1, queue=0))
    assert broker.broker.state.queues.lower == 1
    assert next_of(broker) == [1]


def test_a_stopped_queue_starts_nothing_and_keeps_no_place():
    broker = full(queues={"1": QueueSection(state="enabled")})
    said = broker.tell(want(1, queue=1))
    assert promises(said) == []
    assert next_of(broker) == []
    [reason] = broker.broker.explain(job(1), instant(0.0))
    assert reason.rule is Rule.QUEUE_STOPPED
    assert reason.needed == "an operator to start it, or another queue (0, 2)"


def test_what_an_earlier_broker_promised_in_a_queue_that_was_stopped_is_taken_back():
    broker = LoneBroker(queues={"1": QueueSection(state="enabled")})
    promised = want(1, queue=1, promised_in_s=30.0, promised_machine="ume")
    said = broker.tell(promised, broker.idle())
    assert (matched(said), promises(said)) == ([], [(1, None)])


def stop(broker: LoneBroker, *numbers: int) -> None:
    """From now on these queues start nothing, and all others do."""
    queues = {str(number): QueueSection(state="enabled") for number in numbers}
    known = broker.broker.state.settings.configuration
    broker.broker.configured(replace(known, queues=queues))


def test_a_queue_may_be_stopped_and_started_while_jobs_are_in_it():
    broker = full()
    broker.tell(want(1), want(2, "bob", queue=1))
    stop(broker, 0)
    assert next_of(broker) == [2]
    stop(broker)
    said = broker.tell(broker.idle(1, capacity=ONE_CPU, incarnation=2))
    assert matched(said) == [job(1)]


def test_the_promise_of_a_job_is_taken_back_when_its_queue_is_stopped():
    broker = LoneBroker()
    busy(broker, 50.0, 50.0)
    broker.tell(want(1, cpus=4))
    stop(broker, 0)
    assert promises(broker.wake()) == [(1, None)]
    assert numbers(matched(broker.tell(want(2, "bob", queue=1, count=2)))) == [2, 2]
    stop(broker)
    assert promises(broker.wake()) == []  # what runs in its place has no limit


def test_so_is_that_of_a_job_of_several_ranks():
    wides = WideMatches(machines=0)
    wides.tell(
        wides.idle("m0", CPUS, whole=True, began=(as_running(want(9, cpus=3), ends_in_s=50.0),))
    )
    assert not wides.submit(4, number=1, limit_s=60.0)
    stop(wides.broker, 0)
    assert promises(wides.broker.wake()) == [(1, None)]
    assert not wides.state.heads.by_job


def test_a_queue_that_is_not_there_starts_nothing():
    broker = full()
    broker.tell(want(1, queue=7))
    assert next_of(broker) == []
    [reason] = broker.broker.explain(job(1), instant(0.0))
    assert "no queue 7" in reason.had


def test_a_disabled_queue_goes_on_with_what_is_in_it():
    broker = full(queues={"1": QueueSection(state="disabled")})
    broker.tell(want(1, queue=1))
    assert next_of(broker) == [1]


def test_the_next_task_is_not_fetched_ahead_from_a_lower_queue():
    """While short tasks run, the next ones are sent to wait there: in the same order."""
    pair = Pair(*(want(number, "zoe", limit_s=4.0) for number in (8, 9)))
    for late in (want(1, queue=1, limit_s=4.0), want(2, "bob", limit_s=4.0)):
        pair.broker.tell(late)
    assert [match.job for match in pair.begin_all()] == [job(2), job(1)]


def test_a_policy_is_given_jobs_in_the_order_of_their_queues():
    seen: list[list[int]] = []

    def look(view, now):
        seen.append([each.id.number for each in view.queue()])
        return []

    broker = broker_with(look)
    broker.tell(want(1, queue=1), want(2, "bob", queue=2), want(3, "cleo"), want(4, queue=3))
    assert seen[-1] == [3, 1, 2]  # there is no queue 3
