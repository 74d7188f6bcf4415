"""A drawn job that does not fit keeps a place; its promise is kept or improved, never put off."""

from __future__ import annotations

from msgspec.structs import replace

from iriai.model.ids import Account, JobId
from iriai.model.reason import Rule
from iriai.model.resources import Resources
from iriai.policy.placement.calendar import END_SLACK_S
from iriai.protocol.messages.candidates import BrokerCandidate
from iriai.protocol.messages.effects import LinkDown
from iriai.protocol.messages.scheduling import Running, Want, Withdraw
from tests.broker.lone_broker import LoneBroker, as_running, matched, matches, promises, want
from tests.support.told import attempt, instant, job

GRACE_S = 10.0


def busy(broker: LoneBroker, *ends_in_s: float | None, cpus: int = 4, each: int = 1) -> None:
    """A machine with a claim of `each` cpus for each end; numbers from 100."""
    running = tuple(
        as_running(want(100 + n, "zoe", cpus=each), ends_in_s=end_s)
        for n, end_s in enumerate(ends_in_s)
    )
    free = cpus - each * len(running)
    broker.tell(broker.idle(free, capacity=Resources(cpus), began=running))


def ended(broker: LoneBroker, *numbers: int, cpus: int = 4):
    """These claims are over; each frees a cpu."""
    over = tuple(attempt(number) for number in numbers)
    fields = {"capacity": Resources(cpus), "ended": over}
    return broker.tell(broker.idle(len(over), whole=False, **fields))


def reserved_on_four_cpus(**fields) -> LoneBroker:
    """Job 1 wants all four cpus, of which two are busy for 50 s."""
    broker = LoneBroker(**fields)
    busy(broker, 50.0, 50.0)
    assert promises(broker.tell(want(1, cpus=4))) == [(1, 50.0)]
    return broker


def test_it_is_promised_the_moment_at_which_everything_has_ended():
    broker = LoneBroker()
    busy(broker, 20.0, 50.0, 90.0)
    assert promises(broker.tell(want(1, cpus=3))) == [(1, 50.0)]


def test_it_starts_when_there_is_room_whoever_is_drawn():
    broker = reserved_on_four_cpus()
    broker.tell(*[want(n, "bob") for n in range(2, 9)])
    broker.now_s = 50.0
    assert matched(ended(broker, 100, 101)) == [job(1)]


def test_short_work_fills_in_before_it():
    broker = reserved_on_four_cpus()
    stay_s = 35.0 - END_SLACK_S - GRACE_S
    said = broker.tell(want(2, "bob", limit_s=stay_s, grace_s=GRACE_S, count=9))
    assert matched(said) == [job(2), job(2)]
    assert promises(said) == []


def test_what_might_outlast_its_start_does_not():
    broker = reserved_on_four_cpus()
    said = broker.tell(want(2, "bob", limit_s=40.0, grace_s=GRACE_S))
    assert matched(said) == []  # with its grace and the slack it may need 55 s
    assert broker.broker.explain(job(2), instant(0.0))[0].rule is Rule.RESERVED_HEAD_AHEAD


def test_work_without_a_limit_never_fills_in():
    broker = reserved_on_four_cpus()
    assert matched(broker.tell(want(2, "bob"))) == []


def test_it_does_where_the_head_leaves_room():
    broker = LoneBroker()
    busy(broker, 50.0, 50.0)
    broker.tell(want(1, cpus=3))
    assert matched(broker.tell(want(2, "bob", count=9))) == [job(2)]


def test_room_that_comes_earlier_improves_the_promise():
    broker = LoneBroker()
    busy(broker, 50.0, 90.0, 90.0, cpus=4)
    assert promises(broker.tell(want(1, cpus=3))) == [(1, 90.0)]
    broker.now_s = 10.0
    assert promises(ended(broker, 101)) == [(1, 40.0)]


def test_a_promise_that_hardly_changes_is_not_told_again():
    broker = LoneBroker()
    busy(broker, 50.0, 50.5, 90.0)
    assert promises(broker.tell(want(1, cpus=3))) == [(1, 50.5)]
    assert promises(ended(broker, 101)) == []


def test_a_more_urgent_job_does_not_displace_it():
    broker = reserved_on_four_cpus()
    said = broker.tell(want(2, "bob", cpus=4, urgency=100.0), want(3, urgency=100.0))
    assert (matched(said), promises(said)) == ([], [])
    broker.now_s = 50.0
    assert matched(ended(broker, 100, 101)) == [job(1)]


def test_there_is_one_for_a_machine():
    broker = reserved_on_four_cpus()
    broker.tell(want(2, "bob", cpus=4), want(3, "cleo", cpus=3))
    assert list(broker.broker.state.reserved) == ["ume"]


def test_machines_that_share_no_job_have_one_each():
    broker = LoneBroker()
    busy(broker, 50.0, 50.0)
    running = (as_running(want(200, "zoe"), ends_in_s=30.0),)
    other = {"machine": "kaki", "capacity": Resources(2, 0, 1), "began": running}
    broker.tell(broker.idle(1, **other))
    with_gpu = Want(job(2), Account("lab", "bob"), Resources(2, 0, 1), None, 1.0, 0.0, 1)
    broker.tell(want(1, cpus=4), with_gpu)
    heads = broker.broker.state.reserved
    assert {name: head.job for name, head in heads.items()} == {"ume": job(1), "kaki": job(2)}


def test_a_head_that_is_cancelled_keeps_nothing():
    broker = reserved_on_four_cpus()
    assert matched(broker.tell(want(2, "bob"))) == []
    assert matched(broker.tell(Withdraw(job(1)))) == [job(2)]


def test_a_head_that_asks_for_something_else_keeps_nothing():
    broker = reserved_on_four_cpus()
    broker.tell(want(2, "bob"))
    assert sorted(matched(broker.tell(want(1, cpus=1)))) == [job(1), job(2)]


def test_behind_tasks_without_a_limit_nothing_is_promised_and_the_place_is_kept():
    broker = LoneBroker()
    busy(broker, None, None)
    assert promises(broker.tell(want(1, cpus=4))) == []
    assert matched(broker.tell(want(2, "bob"))) == []
    assert matched(broker.tell(want(3, "bob", limit_s=3600.0))) == [job(3)]
    reasons = broker.broker.explain(job(1), instant(0.0))
    assert [reason.rule for reason in reasons] == [Rule.MACHINE_BUSY, Rule.RESERVED]
    assert "without a time limit" in reasons[1].had


def test_a_promise_appears_when_the_open_tasks_have_ended():
    broker = LoneBroker()
    busy(broker, None, 50.0)
    assert promises(broker.tell(want(1, cpus=4))) == []
    assert promises(ended(broker, 100)) == [(1, 50.0)]


def test_another_broker_keeps_the_promise():
    broker = LoneBroker()
    rival = want(2, "bob", cpus=3, waited_s=1e6)
    broker.tell(rival, want(1, cpus=4, promised_in_s=30.0, promised_machine="ume"))
    busy(broker, 30.0, 30.0)
    assert broker.broker.state.reserved["ume"].job == job(1)
    broker.now_s = 30.0
    assert matched(ended(broker, 100, 101)) == [job(1)]


def test_of_two_promises_for_one_machine_the_first_is_kept():
    broker = LoneBroker()
    promised = {"promised_in_s": 30.0, "promised_machine": "ume"}
    broker.tell(want(1, cpus=4, **promised), want(2, "bob", cpus=4, **promised))
    busy(broker, 30.0, 30.0)
    assert broker.broker.state.reserved["ume"].job == job(1)


def test_a_new_broker_keeps_no_place_for_a_job_whose_home_went_away():
    """Otherwise the promise to another home's job for that machine would be forgotten."""
    broker = LoneBroker()
    broker.broker.begin([BrokerCandidate("kaki"), BrokerCandidate("sumi")], 1.0, instant(0.0))
    promised = {"promised_in_s": 30.0, "promised_machine": "ume"}
    broker.tell(replace(want(2, cpus=4, **promised), job=JobId("kaki", 2)))
    assert broker.broker.state.reserved["ume"].job == JobId("kaki", 2)
    broker.tell(LinkDown("kaki"))
    assert broker.broker.state.reserved == {}
    broker.tell(want(1, cpus=4, **promised))
    assert broker.broker.state.reserved["ume"].job == job(1)


def test_a_place_on_a_machine_that_has_not_reported_holds_nobody_up():
    broker = LoneBroker()
    broker.tell(want(1, cpus=4, promised_in_s=30.0, promised_machine="kaki"))
    broker.tell(broker.idle())
    assert broker.broker.state.queues.entries == {}
    assert broker.broker.state.reserved == {}


def test_what_fills_in_leaves_the_cap_for_the_head_of_its_account():
    broker = LoneBroker(cap_cpus=4)
    busy(broker, 50.0, 50.0)
    said = broker.tell(want(1, cpus=4), want(2, limit_s=5.0), want(3, "bob", limit_s=5.0))
    assert promises(said) == [(1, 50.0)]
    assert matched(said) == [job(3)]
    assert broker.broker.explain(job(2), instant(0.0))[0].rule is Rule.RUNNING_CAP


def test_a_head_that_its_cap_no_longer_lets_start_is_told():
    """As after a change of the configuration: the promise was made under another cap."""
    broker = LoneBroker(cap_cpus=4)
    mine = Running(attempt(9), want(1).account, Resources(1), None, None, 0.0, 1.0, None)
    broker.tell(broker.idle(3, capacity=Resources(4), began=(mine,)))
    said = broker.tell(want(1, cpus=4, promised_in_s=30.0, promised_machine="ume"))
    assert promises(said) == [(1, None)]


def test_one_too_large_for_every_machine_blocks_nobody():
    broker = LoneBroker()
    busy(broker, 50.0, 50.0)
    said = broker.tell(want(1, cpus=5, waited_s=99.0), want(2, cpus=3))
    assert promises(said) == [(2, 50.0)]
    assert matched(broker.tell(want(3, "bob", limit_s=5.0))) == [job(3)]


def test_each_head_starts_once():
    broker = reserved_on_four_cpus()
    broker.now_s = 50.0
    [match] = matches(ended(broker, 100, 101))
    assert broker.broker.state.reserved == {}
    assert match.job == job(1)
    assert matched(broker.tell(want(1, cpus=4, count=1))) == []
