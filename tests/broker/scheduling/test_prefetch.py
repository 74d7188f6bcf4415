"""Which task is handed out ahead, and where: the next one, if it is short and so is what runs.

Two machines, with one cpu each unless a story says otherwise.
"""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from iriai.broker.machines.machine_view import MATCH_UNTIL_S
from iriai.broker.scheduling.pending_matches import SHORT_S
from iriai.config.sections import QueueSection
from iriai.model.ids import Account
from iriai.model.records import LedgerRow
from iriai.model.resources import Resources
from iriai.protocol.messages.effects import Part, Wake
from iriai.protocol.messages.scheduling import Counted, Match, Want
from tests.broker.lone_broker import LoneBroker, as_running, matches, want
from tests.support.told import WALL_S, attempt, job

ONE = Resources(1)
SHORT = {"limit_s": 4.0}


class Pair:
    """A broker and its two machines."""

    def __init__(self, *wants: Want, cpus: int = 1, memory_bytes: int = 0, **options) -> None:
        options.setdefault("order", "fifo")
        self.broker = LoneBroker(**options)
        self.wants = {each.job: each for each in wants}
        self.capacity = Resources(cpus, memory_bytes)
        for name in ("m1", "m2"):
            self.broker.tell(self.broker.idle(machine=name, capacity=self.capacity))
        self.begun = 0
        self.first = matches(self.broker.tell(*wants))

    def begin(self, match: Match, **fields) -> list[Match]:
        """What was matched runs; one may wait behind it."""
        self.begun += 1
        which = attempt(match.job.number, self.begun)
        machine, capability, _ = match.seats[0]
        its = as_running(
            self.wants[match.job],
            attempt_id=which,
            ends_in_s=60.0,
            capability=capability,
        )
        its = replace(its, queue=self.wants[match.job].queue)
        news = {"ahead": self.broker.capabilities(1), "machine": machine}
        news |= {
            "capacity": self.capacity,
            "began": (its,),
            "spent": (match.seats[0].capability,),
        } | fields
        return matches(self.broker.tell(self.broker.idle(0, whole=False, **news)))

    def begin_all(self, **fields) -> list[Match]:
        return [ahead for match in self.first for ahead in self.begin(match, **fields)]

    def waiting(self, number: int) -> int:
        """How many tasks of a job wait, as far as the broker knows."""
        return self.broker.broker.state.queues.entries[job(number)].count


def test_the_next_short_task_is_sent_where_a_short_one_runs():
    pair = Pair(want(count=5, **SHORT))
    ahead = pair.begin_all()
    assert [each.job for each in ahead] == [job(), job()]
    assert [each.seats[0].machine for each in ahead] == ["m1", "m2"]
    assert pair.waiting(1) == 1


def test_one_at_most_for_each_place():
    pair = Pair(want(count=9, **SHORT))
    [first, second] = pair.first
    assert len(pair.begin(first, ahead=pair.broker.capabilities(2))) == 1
    assert len(pair.begin(second, ahead=pair.broker.capabilities(2))) == 1


def test_nothing_is_sent_without_a_capability_for_it():
    assert Pair(want(count=5, **SHORT)).begin_all(ahead=()) == []


def test_nothing_is_sent_where_something_long_runs():
    assert Pair(want(count=5, limit_s=SHORT_S + 1.0)).begin_all() == []


def test_nothing_short_goes_before_something_long():
    """The long one is the next; so the place is for the pass after the end."""
    jobs = (want(1, count=2, **SHORT), want(2, count=2), want(3, count=5, **SHORT))
    assert Pair(*jobs).begin_all() == []


WIDE_NEXT = (want(1, count=4, **SHORT), want(2, cpus=2, **SHORT), want(3, count=9, **SHORT))
"""What fills two machines of two cpus, then one that takes a whole one, then small ones again."""


def test_what_is_next_and_does_not_fit_has_a_place_kept_and_none_goes_before_it_there():
    pair = Pair(*WIDE_NEXT, cpus=2)
    ahead = pair.begin_all()
    [head] = pair.broker.broker.state.reserved.values()
    assert head.job == job(2)
    assert {each.job for each in ahead} == {job(3)}
    assert head.machine not in {each.seats[0].machine for each in ahead}


def test_where_nothing_passes_what_is_next_nothing_is_sent_ahead():
    assert Pair(*WIDE_NEXT, cpus=2, backfill="none").begin_all() == []


def test_a_plan_sends_nothing_ahead():
    assert Pair(want(count=9, **SHORT), backfill="conservative").begin_all() == []


def test_tasks_are_short_when_those_of_their_account_are():
    pair = Pair(want(count=5))
    row = LedgerRow(Account("lab", "ann"), 8.0, WALL_S, 8, 8.0)
    pair.broker.tell(Counted("m1", (row,), ()))
    assert len(pair.begin_all()) == 2


def test_a_few_short_runs_say_nothing_of_an_account():
    pair = Pair(want(count=5))
    row = LedgerRow(Account("lab", "ann"), 3.0, WALL_S, 3, 3.0)
    pair.broker.tell(Counted("m1", (row,), ()))
    assert pair.begin_all() == []


def test_the_account_is_drawn():
    """Of two that have used alike each is drawn at times."""
    drawn = set()
    for seed in range(20):
        jobs = (want(1, "ann", count=9, **SHORT), want(2, "bob", count=9, **SHORT))
        drawn |= {each.job for each in Pair(*jobs, order="lottery", seed=seed).begin_all()}
    assert drawn == {job(1), job(2)}


def test_the_cap_on_what_runs_counts_what_waits():
    pair = Pair(want(count=9, **SHORT), cap_cpus=3)
    assert len(pair.begin_all()) == 1


def test_a_task_that_waits_counts_until_it_is_given_back():
    pair = Pair(want(count=5, **SHORT))
    [[ahead]] = [match.seats for match in pair.begin(pair.first[0])]
    state, ann = pair.broker.broker.state, Account("lab", "ann")
    waiting = as_running(
        pair.wants[job()], attempt_id=attempt(1, 0, 3), capability=ahead.capability
    )
    news = {"machine": ahead.machine, "capacity": ONE, "whole": False}
    pair.broker.tell(pair.broker.idle(0, waiting=(waiting,), spent=(ahead.capability,), **news))
    assert state.usage.running_cpus(ann) == 3
    back = (attempt(1, 0, 3),)
    pair.broker.tell(pair.broker.idle(0, ended=back, refused=back, **news))
    assert state.usage.running_cpus(ann) == 2
    assert not state.machines[ahead.machine].calendar.ahead


def test_a_refusal_of_what_was_to_wait_says_nothing_of_the_machine():
    pair = Pair(want(count=5, **SHORT))
    [[ahead]] = [match.seats for match in pair.begin(pair.first[0])]
    news = {"machine": ahead.machine, "capacity": ONE, "whole": False}
    pair.broker.tell(pair.broker.idle(0, spent=(ahead.capability,), **news))
    view = pair.broker.broker.state.machines[ahead.machine]
    assert view.back_off._refusals == 0
    assert not view.matched


def test_a_match_of_which_nothing_is_heard_is_over_in_time():
    pair = Pair(want(count=5, **SHORT))
    pair.begin_all()
    assert pair.waiting(1) == 1
    pair.broker.now_s += MATCH_UNTIL_S
    pair.broker.tell(Wake(Part.BROKER))
    assert pair.waiting(1) == 3


def test_a_broker_with_its_own_machine_alone_sends_nothing_ahead():
    broker = LoneBroker(order="fifo")
    its = want(count=5, **SHORT)
    [match] = matches(broker.tell(broker.idle(1, capacity=ONE), its))
    ahead = broker.capabilities(1)
    assert matches(broker.tell(broker.began(match, its, capacity=ONE, ahead=ahead))) == []


@pytest.mark.parametrize(("queue", "is_sent"), [(1, False), (0, True)])
def test_nothing_is_sent_where_a_task_of_its_queue_stands_and_goes_on_first(queue, is_sent):
    """Both began when the short one ended, and what had waited there stood again at once."""
    resources = Resources(1, 1)
    lower = [want(number, queue=1, limit_s=100.0, resources=resources) for number in (1, 2)]
    pair = Pair(*lower, memory_bytes=8, queues={"1": QueueSection(mode="exclusive")})
    pair.begin_all()
    for name in ("m1", "m2"):
        pair.broker.tell(pair.broker.idle(1, machine=name, capacity=pair.capacity, whole=False))
    higher = want(3, count=2, **SHORT)
    pair.wants[higher.job] = higher
    first = matches(pair.broker.tell(higher, want(4, queue=queue, count=5, **SHORT)))
    assert {each.job for each in first} == {job(3)}
    ahead = [each for match in first for each in pair.begin(match)]
    assert bool(ahead) is is_sent
