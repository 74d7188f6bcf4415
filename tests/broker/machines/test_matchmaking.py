"""Who is matched with what is idle, and what a broker does about messages that go astray."""

from __future__ import annotations

from collections import Counter

import pytest

from iriai.broker.machines.machine_view import MATCH_UNTIL_S
from iriai.broker.state.placement import Placement
from iriai.config.sections import GroupSection
from iriai.model.reason import Reason, Rule
from iriai.model.resources import Resources
from iriai.protocol.messages.effects import Part, WakeAt
from iriai.protocol.messages.scheduling import Decline, SeatOffer, Withdraw
from tests.broker.lone_broker import (
    CAPACITY,
    LoneBroker,
    as_running,
    counted,
    matched,
    matches,
    numbers,
    want,
)
from tests.support.told import HOME, NOTHING_TOLD, attempt, instant, job

AWAY = Reason(Rule.NO_LAUNCHER, "a launcher", "none", HOME)


def test_an_idle_machine_and_a_want_make_a_match():
    broker = LoneBroker()
    assert broker.tell(broker.idle()) == NOTHING_TOLD
    [match] = matches(broker.tell(want(1)))
    assert (match.job, match.seats[0].machine, match.until_s) == (job(1), HOME, MATCH_UNTIL_S)


def test_no_more_is_matched_than_fits():
    broker = LoneBroker()
    broker.tell(broker.idle())
    assert matched(broker.tell(want(1, cpus=3, count=9))) == [job(1)]
    assert matched(broker.tell(want(2, "bob", cpus=1, count=9))) == [job(2)]


def test_a_machine_that_takes_nothing_is_not_asked():
    broker = LoneBroker()
    broker.tell(broker.idle(unavailable=AWAY))
    assert matched(broker.tell(want(1))) == []
    assert broker.broker.explain(job(1), instant(0.0)) == [AWAY]


def test_a_machine_that_came_back_may_name_claims_whose_place_others_were_given():
    """What it found in its store; its launcher says in a moment which of them have ended."""
    broker = LoneBroker()
    over, runs = as_running(want(8, cpus=4)), as_running(want(9, cpus=3))
    broker.tell(broker.idle(unavailable=AWAY, began=(over, runs)))
    assert matched(broker.tell(want(1))) == []
    assert matched(broker.tell(broker.idle(1, whole=False, ended=(attempt(8),)))) == [job(1)]


def test_a_withdrawn_want_is_forgotten():
    broker = LoneBroker()
    broker.tell(want(1))
    broker.tell(Withdraw(job(1)))
    broker.tell(Withdraw(job(1)))
    assert matched(broker.tell(broker.idle())) == []


def test_a_want_replaces_the_one_before():
    broker = LoneBroker()
    broker.tell(want(1, count=1))
    broker.tell(want(1, count=3))
    broker.tell(want(1, count=3))
    assert matched(broker.tell(broker.idle())) == [job(1)] * 3


def test_a_claim_takes_the_place_of_its_match():
    broker = LoneBroker()
    broker.tell(broker.idle())
    wanted = want(1, cpus=3)
    [match] = matches(broker.tell(wanted))
    broker.tell(broker.began(match, wanted))
    view = broker.broker.state.machines[HOME]
    assert view.calendar.free == Resources(1, CAPACITY.memory_bytes)
    broker.tell(broker.idle(0, whole=False, ended=(attempt(1),)))
    assert view.calendar.free == CAPACITY


# --- messages that are lost, repeated or stale ---------------------------------------------------


def test_a_declined_match_frees_its_place_and_its_capability():
    broker = LoneBroker()
    broker.tell(broker.idle(1))
    [match] = matches(broker.tell(want(1)))
    decline = Decline(job(1), match.seats)
    broker.tell(decline)
    [again] = matches(broker.tell(want(2)))
    assert again.seats[0].capability == match.seats[0].capability
    broker.tell(decline)  # a late copy, while the second match is under way: it costs a refusal
    broker.tell(decline)


def test_a_task_whose_match_got_lost_has_been_at_the_front_once():
    broker = LoneBroker()
    broker.tell(broker.idle(1, capacity=Resources(1)))
    broker.tell(want(1, front=1))
    broker.tell(want(2, urgency=2.0))
    broker.now_s = MATCH_UNTIL_S
    assert matched(broker.wake()) == [job(2)]


@pytest.mark.parametrize("count", [1, 2])
def test_a_match_of_which_nothing_is_heard_is_over_after_a_while(count):
    broker = LoneBroker()
    broker.tell(broker.idle(1))
    said = broker.tell(want(1, cpus=4, count=count))
    [match] = matches(said)
    assert said.others == [WakeAt(Part.BROKER, MATCH_UNTIL_S)]
    broker.now_s = MATCH_UNTIL_S
    [again] = matches(broker.wake())
    assert (again.job, again.seats[0].capability) == (job(1), match.seats[0].capability)


def test_each_match_of_which_nothing_is_heard_is_over_in_its_time():
    broker = LoneBroker()
    broker.tell(broker.idle(2, capacity=Resources(2)))
    broker.tell(want(1))
    broker.now_s = MATCH_UNTIL_S / 2
    broker.tell(want(2))
    broker.tell(broker.idle(0, whole=False, unavailable=AWAY))
    broker.now_s = MATCH_UNTIL_S
    assert broker.wake().others == [WakeAt(Part.BROKER, 2 * MATCH_UNTIL_S)]
    broker.now_s = 2 * MATCH_UNTIL_S
    assert broker.wake() == NOTHING_TOLD
    assert sorted(broker.broker.state.queues.entries) == [job(1), job(2)]


def test_another_job_may_have_the_place_of_a_match_that_got_lost():
    broker = LoneBroker()
    broker.tell(broker.idle(1))
    [match] = matches(broker.tell(want(1, cpus=4)))
    assert matched(broker.tell(want(2, urgency=9.0))) == []
    broker.now_s = MATCH_UNTIL_S
    [again] = matches(broker.wake())
    assert (again.job, again.seats[0].capability) == (job(2), match.seats[0].capability)


def test_a_capability_that_came_back_is_not_tried_again():
    broker = LoneBroker()
    broker.tell(broker.idle(1))
    [match] = matches(broker.tell(want(1)))
    broker.now_s = MATCH_UNTIL_S
    broker.wake()  # the match is given up, but the home used it
    broker.tell(broker.idle(0, whole=False, spent=(match.seats[0].capability,)))
    assert matched(broker.tell(want(2))) == []


def test_a_report_that_comes_again_changes_nothing():
    broker = LoneBroker()
    first = broker.idle()
    broker.tell(first)
    wanted = want(1, cpus=3)
    [match] = matches(broker.tell(wanted))
    began = broker.began(match, wanted)
    broker.tell(began)
    assert broker.tell(began) == NOTHING_TOLD
    assert broker.tell(first) == NOTHING_TOLD
    assert broker.broker.state.machines[HOME].calendar.free.cpus == 1


def test_news_of_a_machine_that_is_not_known_waits_for_a_whole_report():
    broker = LoneBroker()
    broker.tell(broker.idle(whole=False))
    assert broker.broker.state.machines == {}


def test_a_new_incarnation_replaces_what_was_known():
    broker = LoneBroker()
    running = as_running(want(7, cpus=2))
    broker.tell(broker.idle(2, began=(running,)))
    assert broker.broker.state.usage.running_cpus(running.account) == 2
    broker.tell(broker.idle(incarnation=2, version=1))
    assert broker.broker.state.machines[HOME].calendar.free == CAPACITY
    assert broker.broker.state.usage.running_cpus(running.account) == 0


def test_what_nobody_knows_of_is_no_trouble():
    broker = LoneBroker()
    broker.tell(Decline(job(1), (SeatOffer("kaki", broker.capabilities(1)[0]),)))
    broker.tell(broker.idle())
    broker.tell(broker.idle(0, whole=False, ended=(attempt(9),), spent=broker.capabilities(1)))
    assert broker.broker.state.machines[HOME].calendar.free == CAPACITY


# --- within an account ---------------------------------------------------------------------------


def order_of(*wants, machine_cpus=1) -> list[int]:
    """The order in which one account's jobs start on one cpu."""
    broker = LoneBroker()
    broker.tell(*wants)
    started: list[int] = []
    version = {"capacity": Resources(machine_cpus)}
    said = broker.tell(broker.idle(machine_cpus, **version))
    while found := matches(said):
        started += numbers(match.job for match in found)
        wanted = next(each for each in wants if each.job == found[0].job)
        broker.tell(broker.began(found[0], wanted, **version))
        over = {"ended": (attempt(wanted.job.number),)}
        said = broker.tell(broker.idle(machine_cpus, whole=False, **version, **over))
    return started


def test_the_longest_waiting_goes_first():
    assert order_of(want(1, waited_s=5.0), want(2, waited_s=9.0), want(3, waited_s=1.0)) == [
        2,
        1,
        3,
    ]


def test_of_two_that_waited_as_long_the_lower_number_goes_first():
    assert order_of(want(2), want(1)) == [1, 2]


def test_the_more_urgent_goes_before_the_longer_waiting():
    assert order_of(want(1, waited_s=900.0), want(2, urgency=2.0)) == [2, 1]


def test_what_waits_again_goes_before_the_urgent():
    assert order_of(want(1, urgency=9.0), want(2, front=1)) == [2, 1]


def test_only_the_tasks_that_wait_again_go_first():
    assert order_of(want(1, waited_s=9.0, count=1), want(2, count=3, front=1)) == [2, 1, 2, 2]


# --- between accounts ----------------------------------------------------------------------------


def shares_of(broker: LoneBroker, rounds: int, *wants) -> Counter[str]:
    """How often each user is drawn for one free cpu, usage staying as it is."""
    drawn: Counter[str] = Counter()
    broker.tell(*wants)
    version = {"capacity": Resources(1)}
    [match] = matches(broker.tell(broker.idle(1, **version)))
    for _ in range(rounds):
        wanted = next(each for each in wants if each.job == match.job)
        drawn[wanted.account.user] += 1
        began = as_running(wanted, capability=match.seats[0].capability)
        over = {"spent": (match.seats[0].capability,), "began": (began,), "ended": (began.attempt,)}
        said = broker.tell(wanted, broker.idle(1, whole=False, **version, **over))
        [match] = matches(said)
    return drawn


def test_the_draw_weighs_by_use():
    broker = LoneBroker(seed=3)
    broker.tell(counted(ann=1e6, bob=3e6))
    drawn = shares_of(broker, 2000, want(1, "ann"), want(2, "bob"))
    assert drawn["ann"] / 2000 == pytest.approx(0.75, abs=0.03)


def test_urgency_weighs_while_the_job_is_at_the_head():
    broker = LoneBroker(seed=3)
    broker.tell(counted(ann=1e6, bob=1e6))
    drawn = shares_of(broker, 2000, want(1, "ann", urgency=3.0), want(2, "bob"))
    assert drawn["ann"] / 2000 == pytest.approx(0.75, abs=0.03)


def test_rights_weigh_squared():
    broker = LoneBroker(seed=3, groups={"lab": GroupSection(1.0, {"ann": 2.0})})
    broker.tell(counted(ann=1e6, bob=1e6))
    drawn = shares_of(broker, 2000, want(1, "ann"), want(2, "bob"))
    assert drawn["ann"] / 2000 == pytest.approx(0.8, abs=0.03)


def room(cpus: int) -> dict:
    return {"capacity": Resources(cpus)}


def test_a_newcomer_among_four_waiting_accounts_gets_at_most_half_of_64_free_cpus():
    broker = LoneBroker()
    broker.tell(counted(bob=1e7, cleo=1e7, dora=1e7))
    users = ("ann", "bob", "cleo", "dora")
    broker.tell(*[want(n, user, count=1000) for n, user in enumerate(users)])
    got = Counter(numbers(matched(broker.tell(broker.idle(64, **room(64))))))
    assert sum(got.values()) == 64
    assert got[0] == 32


def test_and_all_of_them_once_the_others_have_nothing():
    broker = LoneBroker()
    broker.tell(counted(bob=1e7))
    broker.tell(want(1, "ann", count=1000))
    assert len(matched(broker.tell(broker.idle(64, **room(64))))) == 64


def test_what_others_leave_is_not_left_idle():
    broker = LoneBroker()
    broker.tell(want(1, "ann", count=1000), want(2, "bob", count=3))
    got = Counter(numbers(matched(broker.tell(broker.idle(64, **room(64))))))
    assert got == {1: 61, 2: 3}


def test_what_is_matched_counts_for_its_group_within_the_pass():
    """Two cpus for two groups: who was drawn for the first is hardly drawn for the second."""
    both = 0
    for seed in range(20):
        broker = LoneBroker(groups={"lab": GroupSection(1.0), "shop": GroupSection(1.0)}, seed=seed)
        broker.tell(*[want(n, f"lab{n}", count=9) for n in range(5)])
        broker.tell(want(9, "cleo", group="shop", count=9))
        got = numbers(matched(broker.tell(broker.idle(2, **room(2)))))
        both += got.count(9) == 1
    assert both >= 15


def test_a_running_cap_is_kept_on_an_idle_machine():
    broker = LoneBroker(cap_cpus=3)
    broker.tell(want(1, "ann", count=9), want(2, "bob", cpus=2, count=9))
    got = Counter(numbers(matched(broker.tell(broker.idle(64, **room(64))))))
    assert got == {1: 3, 2: 1}


def test_an_account_that_is_alone_runs_whatever_it_has_used():
    broker = LoneBroker()
    broker.tell(counted(ann=1e12))
    broker.tell(want(1, "ann", count=9))
    assert len(matched(broker.tell(broker.idle(4)))) == 4


# --- many kinds of tasks -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kinds",
    [
        [want(n, cpus=2, limit_s=100.0 + n) for n in range(500)],
        [want(n, cpus=2 + n) for n in range(500)],
        [want(n, cpus=9, limit_s=100.0 + n) for n in range(500)],
    ],
    ids=["a limit each", "a size each", "none that could ever run"],
)
def test_what_cannot_start_is_looked_at_once_in_a_pass(monkeypatch, kinds):
    """Not once for each kind of task: a thousand limits would make a turn take seconds."""
    looks = []
    place = Placement.place

    def counted_place(self, kind):
        looks.append(kind)
        return place(self, kind)

    broker = LoneBroker()
    broker.tell(broker.idle(1, capacity=Resources(1)), *kinds)
    monkeypatch.setattr(Placement, "place", counted_place)
    broker.tell(broker.idle(0, whole=False))
    assert len(looks) < 10


def test_beside_a_head_the_shortest_kind_that_fits_is_found():
    broker = LoneBroker()
    busy = as_running(want(900, "zoe", cpus=2), ends_in_s=60.0)
    broker.tell(broker.idle(2, began=(busy,)))
    broker.tell(want(901, "bob", cpus=4))
    limits = [want(n, limit_s=200.0 - n, waited_s=200.0 - n) for n in range(200)]
    assert matched(broker.tell(*limits))[0] == job(145)  # with the slack of 5 s it ends in time
