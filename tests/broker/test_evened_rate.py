"""With `[order] even = "rate"` a draw looks at what accounts use now (docs/spec/003)."""

from __future__ import annotations

from random import Random

from msgspec.structs import replace

from iriai.broker.state.queue_order import in_order
from iriai.model.ids import Account
from iriai.model.resources import Resources
from iriai.model.suspension import SuspendedClaim
from iriai.protocol.messages.scheduling import Running
from tests.broker.lone_broker import LoneBroker, as_running, counted, matched, want
from tests.support.told import attempt, instant, job

ANN, BEN = Account("lab", "ann"), Account("lab", "ben")
FOUR = Resources(4, 8 << 30)


def claim(number: int, user: str, cpus: int = 1) -> Running:
    return as_running(want(number, user, cpus=cpus), attempt_id=attempt(number))


def suspended(running: Running, **fields) -> Running:
    return replace(running, suspended=SuspendedClaim(stands=True, **fields))


def rates(broker: LoneBroker) -> dict[str, float]:
    shares = broker.broker.shares(instant(broker.now_s))
    return {share.account.user: share.present_rate for share in shares}


def busy(**fields) -> LoneBroker:
    """A broker with a machine of four cpus: ann's tasks have three, ben's one."""
    broker = LoneBroker(even="rate", order="stride", **fields)
    claims = (claim(100, "ann", 2), claim(101, "ann"), claim(102, "ben"))
    broker.tell(broker.idle(0, capacity=FOUR, began=claims))
    return broker


def test_who_uses_less_now_is_next_whatever_it_has_used():
    broker = busy()
    broker.tell(counted(ben=1e9))
    broker.tell(want(1, "ann"), want(2, "ben"))
    said = broker.tell(broker.idle(1, whole=False, ended=(attempt(101),)))
    assert matched(said) == [job(2)]


def test_by_total_who_has_used_less_is_next():
    broker = LoneBroker(order="stride")
    claims = (claim(100, "ann", 2), claim(101, "ann"), claim(102, "ben"))
    broker.tell(broker.idle(0, capacity=FOUR, began=claims), counted(ben=1e9))
    broker.tell(want(1, "ann"), want(2, "ben"))
    said = broker.tell(broker.idle(1, whole=False, ended=(attempt(101),)))
    assert matched(said) == [job(1)]


def test_what_an_owner_suspends_is_not_used():
    broker = busy()
    assert rates(broker) == {"ann": 3.0, "ben": 1.0}
    stands = suspended(claim(100, "ann", 2))
    broker.tell(broker.idle(0, whole=False, changed=(stands,)))
    assert rates(broker) == {"ann": 1.0, "ben": 1.0}
    goes_on = replace(stands, suspended=SuspendedClaim())
    broker.tell(broker.idle(0, whole=False, changed=(goes_on,)))
    assert rates(broker) == {"ann": 3.0, "ben": 1.0}


def test_a_new_broker_hears_what_is_suspended():
    broker = LoneBroker(even="rate")
    claims = (suspended(claim(100, "ann", 2)), claim(102, "ben"))
    broker.tell(broker.idle(0, capacity=FOUR, began=claims))
    assert rates(broker) == {"ann": 0.0, "ben": 1.0}


def test_what_a_user_keeps_suspended_counts_for_what_it_keeps():
    broker = LoneBroker(even="rate", memory_weight=1.0)
    asked = want(100, "ann", resources=Resources(2, 4 << 30))
    running = as_running(asked, attempt_id=attempt(100))
    broker.tell(broker.idle(0, capacity=FOUR, began=(running,)))
    assert rates(broker) == {"ann": 2.0 + 4.0}
    stands = suspended(running, freed_cpus=2, is_by_user=True)
    broker.tell(broker.idle(2, whole=False, changed=(stands,)))
    assert rates(broker) == {"ann": 4.0}
    for_owner = suspended(running)
    broker.tell(broker.idle(0, whole=False, changed=(for_owner,)))
    assert rates(broker) == {"ann": 0.0}


def test_shares_are_those_of_present_use():
    broker = busy()
    broker.tell(counted(ben=1e9))
    got = {each.account.user: each.share_got for each in broker.broker.shares(instant(0.0))}
    assert got == {"ann": 0.75, "ben": 0.25}


def test_why_says_what_is_evened():
    broker = busy()
    broker.tell(want(1, "ann"))
    reasons = broker.broker.explain(job(1), instant(0.0))
    assert "accounts: 1, evened by what they use now" in reasons[0].had


def test_the_order_of_what_waits_goes_by_what_starts_would_add():
    """Ann runs one task already; a start counts as much as that, however short it is to be."""
    broker = LoneBroker(even="rate", order="stride")
    claims = (claim(100, "zoe", 3), claim(101, "ann"))
    broker.tell(broker.idle(0, capacity=FOUR, began=claims))
    wants = [want(number, "ann", limit_s=1.0) for number in (1, 2)]
    wants += [want(number, "ben", limit_s=1.0) for number in (3, 4, 5)]
    broker.tell(*wants)
    entries = in_order(broker.broker.state, Random(1), instant(0.0))
    assert [each.want.job.number for each in entries] == [3, 1, 4, 2, 5]
