"""Why a task of a reservation waits: each rule, as the pass has it (docs/spec/017, section 6)."""

from __future__ import annotations

import pytest

from iriai.broker.machines.beside_bookings import EARLIER_S
from iriai.config.sections import PoolSection, QueueSection
from iriai.model.ad import POOL, machine_ad
from iriai.model.ranks import RankShape
from iriai.model.reason import Reason, Rule
from iriai.protocol.messages.effects import LinkDown
from tests.broker.lone_broker import LoneBroker, as_running, matched, want
from tests.broker.test_bookings import (
    booked,
    inside,
    told_of,
    why,
    with_booking,
)
from tests.support.told import HOME, attempt

OPEN = booked(-1.0, 100.0, left=4)


def rules(broker: LoneBroker, number: int = 1) -> list[Rule]:
    return [reason.rule for reason in why(broker, number)]


def test_not_open_yet_says_when_and_on_how_many_machines():
    broker = with_booking(booked(100.0, 200.0))
    told_of(broker, booked(100.0, 200.0), machine="kaki")
    broker.tell(inside())
    [reason] = why(broker, 1)
    assert (reason.rule, reason.needed) == (Rule.NOT_RESERVED, "ume-r7 to be open")
    assert reason.had == "it opens in 100 s, on 2 machines"


def test_a_machine_that_is_drained():
    broker = with_booking(OPEN)
    drained = Reason(Rule.DRAINED, f"iriai resume {HOME}", "root drained it", HOME)
    told_of(broker, OPEN, unavailable=drained)
    assert matched(broker.tell(inside())) == []
    assert why(broker, 1) == [drained]


def test_a_machine_that_cannot_be_reached_beside_one_that_is_full():
    broker = with_booking(OPEN)
    told_of(broker, OPEN, machine="kaki")
    broker.tell(inside(1, count=8))
    broker.tell(inside(2, "bob"), LinkDown("kaki"))
    found = {reason.machine: reason.rule for reason in why(broker, 2)}
    assert found == {"kaki": Rule.MACHINE_AWAY, HOME: Rule.MACHINE_BUSY}


def test_too_little_time_that_is_left():
    broker = with_booking(OPEN)
    broker.now_s = 100.0 - EARLIER_S - 0.5
    assert matched(broker.tell(inside())) == []
    [reason] = why(broker, 1)
    assert (reason.rule, reason.needed) == (Rule.NOT_RESERVED, "ume-r7 for more than 6 s")
    assert reason.had.startswith("it has 4 cpus for ")


def test_a_pool_that_is_full():
    broker = LoneBroker(pools={"small": PoolSection(jobs_max=1)})
    ad = machine_ad({POOL: "small"})
    running = (as_running(want(100, "zoe"), attempt_id=attempt(100)),)
    told_of(broker, booked(-1.0, 100.0, cpus=3, left=3), free=1, ad=ad, began=running)
    assert matched(broker.tell(inside())) == []
    [reason] = why(broker, 1)
    assert (reason.rule, reason.machine) == (Rule.POOL_FULL, HOME)


def test_one_task_of_an_account_on_each_machine():
    broker = with_booking(OPEN, one_per_machine="user")
    assert len(matched(broker.tell(inside(count=2)))) == 1
    assert rules(broker) == [Rule.ONE_PER_MACHINE]


def test_requirements_that_no_machine_of_it_meets():
    broker = LoneBroker()
    told_of(broker, OPEN, ad=machine_ad({"Site": "Kobe"}))
    assert matched(broker.tell(inside(requirements='TARGET.Site == "Ise"'))) == []
    assert rules(broker) == [Rule.REQUIREMENTS]


def test_the_cap_of_its_account():
    broker = with_booking(OPEN, cap_cpus=1)
    assert len(matched(broker.tell(inside(count=2)))) == 1
    assert rules(broker) == [Rule.RUNNING_CAP]


def test_a_queue_that_starts_nothing():
    broker = with_booking(OPEN, queues={"1": QueueSection(state="enabled")})
    assert matched(broker.tell(inside(queue=1))) == []
    assert rules(broker) == [Rule.QUEUE_STOPPED]


def test_ranks_for_which_it_never_has_room():
    broker = with_booking(OPEN)
    assert matched(broker.tell(inside(shape=RankShape(8, 8)))) == []
    [main, *_] = why(broker, 1)
    assert main.rule is Rule.NOT_RESERVED
    assert "ume-r7 is not so large" in main.had


@pytest.mark.parametrize("backfill", ["easy", "conservative"])
def test_a_task_beside_it_is_told_which_reservation_is_in_its_way(backfill):
    broker = with_booking(booked(100.0, 200.0), backfill=backfill)
    assert matched(broker.tell(want(1, limit_s=200.0))) == []
    ahead = next(reason for reason in why(broker, 1) if reason.rule is Rule.RESERVED_AHEAD)
    assert ahead.needed == "to end before ume-r7 starts, or resources that ume-r7 leaves"
    assert ahead.had == "it starts in 100 s, with 4 cpus, for 100 s"
