"""Suspended claims: their cpus serve others, they take them again, and move no promise."""

from __future__ import annotations

from msgspec.structs import replace

from iriai.model.resources import Resources
from iriai.model.suspension import SuspendedClaim
from iriai.protocol.messages.scheduling import Running
from iriai.protocol.messages.suspension import ReturnCpus, Vacate
from tests.broker.lone_broker import LoneBroker, as_running, matched, matches, promises, want
from tests.support.told import Told, attempt, instant, job

CPUS = Resources(4, 8 << 30)


def claim(number: int, ends_in_s: float | None, cpus: int = 2, memory_bytes: int = 0) -> Running:
    asked = want(number, "zoe", resources=Resources(cpus, memory_bytes))
    return as_running(asked, attempt_id=attempt(number), ends_in_s=ends_in_s)


def suspended(running: Running, **suspension) -> Running:
    """The claim as its machine reports it once its user has it suspended."""
    fields = {"freed_cpus": running.resources.cpus, "is_by_user": True}
    return replace(running, suspended=SuspendedClaim(**(fields | suspension)))


def changed(broker: LoneBroker, *claims: Running, free: int = 0, **fields) -> Told:
    return broker.tell(broker.idle(free, whole=False, changed=claims, **fields))


def returned(said: Told) -> list[tuple[int, int]]:
    """Number and cpus of each claim that may take cpus again."""
    return [(m.attempt.number, m.cpus) for m in said.node if isinstance(m, ReturnCpus)]


def vacated(said: Told) -> list[int]:
    return [m.attempt.number for m in said.node if isinstance(m, Vacate)]


def with_claims(*claims: Running, free: int, **fields) -> LoneBroker:
    broker = LoneBroker(**fields)
    broker.tell(broker.idle(free, began=claims))
    return broker


def test_the_cpus_of_a_suspended_claim_serve_others_and_count_as_its_accounts():
    first = claim(100, 50.0, cpus=4)
    broker = with_claims(first, free=0)
    assert matched(broker.tell(want(1, cpus=3))) == []
    assert matched(changed(broker, suspended(first), free=4)) == [job(1)]
    assert broker.broker.state.usage.running_cpus(want(100, "zoe").account) == 4


def test_a_match_that_is_suspended_before_it_is_reported_holds_what_it_keeps():
    broker = LoneBroker()
    broker.tell(broker.idle())
    asked = want(1, cpus=4)
    [match] = matches(broker.tell(asked))
    running = suspended(as_running(asked, capability=match.seats[0].capability))
    broker.tell(broker.began(match, asked, began=(running,)))
    assert broker.broker.state.machines["ume"].calendar.free.cpus == 4


def test_what_waits_for_its_cpus_comes_before_what_waits_in_the_queue():
    first, second = claim(100, 50.0), claim(101, 50.0)
    broker = with_claims(first, second, free=0)
    changed(broker, suspended(first), free=2)
    broker.tell(broker.idle(0, whole=False, began=(claim(102, 50.0),)))
    changed(broker, suspended(first, is_resuming=True))
    broker.tell(want(1, cpus=2))
    said = broker.tell(broker.idle(2, whole=False, ended=(attempt(101),)))
    assert (returned(said), matched(said)) == ([(100, 2)], [])


def test_cpus_are_returned_one_by_one_so_that_small_tasks_do_not_always_take_them():
    first = claim(100, None, cpus=3)
    broker = with_claims(first, claim(101, None, cpus=1), free=0)
    changed(broker, suspended(first), free=3)
    small = tuple(claim(200 + n, None, cpus=1) for n in range(3))
    broker.tell(broker.idle(0, whole=False, began=small))
    changed(broker, suspended(first, is_resuming=True))
    said = broker.tell(broker.idle(1, whole=False, ended=(attempt(200),)))
    assert returned(said) == [(100, 1)]
    left = suspended(first, is_resuming=True, freed_cpus=2)
    said = broker.tell(broker.idle(1, whole=False, changed=(left,), ended=(attempt(201),)))
    assert returned(said) == [(100, 1)]


def test_two_that_wait_take_cpus_in_one_order():
    first, second = claim(100, None, cpus=4), claim(101, None, cpus=4)
    broker = with_claims(first, free=0)
    changed(broker, suspended(first), free=4)
    broker.tell(broker.idle(0, whole=False, began=(second,)))
    third = claim(102, None, cpus=2)
    changed(broker, suspended(second), free=4)
    broker.tell(broker.idle(0, whole=False, began=(third,)))
    waiting = (suspended(each, is_resuming=True) for each in (second, first))
    assert returned(changed(broker, *waiting)) == [(100, 2)]


def test_it_does_not_go_on_where_a_promise_would_move():
    first, second = claim(100, 50.0), claim(101, 20.0)
    broker = with_claims(first, second, free=0)
    changed(broker, suspended(first, left_s=50.0), free=2)
    assert promises(broker.tell(want(1, cpus=4))) == [(1, 20.0)]
    said = changed(broker, suspended(first, is_resuming=True, left_s=50.0))
    assert (returned(said), promises(said)) == ([], [])
    said = changed(broker, suspended(first, is_resuming=True, left_s=15.0))
    assert returned(said) == [(100, 2)]


def test_no_new_place_is_kept_where_a_claim_waits_for_its_cpus():
    first, second = claim(100, 50.0), claim(101, 20.0)
    broker = with_claims(first, second, free=0)
    changed(broker, suspended(first, is_resuming=True, freed_cpus=2, left_s=None))
    broker.tell(broker.idle(0, whole=False, began=(claim(102, 30.0),)))
    assert promises(broker.tell(want(1, cpus=4))) == []


def test_what_is_kept_beyond_its_end_is_given_up_in_time_for_who_was_promised_it():
    first = claim(100, 30.0, cpus=1, memory_bytes=8 << 30)
    broker = with_claims(first, free=3)
    changed(broker, suspended(first, left_s=30.0, ending_s=8.0), free=1)
    asked = want(1, resources=Resources(1, 1 << 30))
    assert promises(broker.tell(asked)) == [(1, 30.0)]
    broker.now_s = 21.0
    assert vacated(broker.wake()) == []
    broker.now_s = 22.5
    assert vacated(broker.wake()) == [100]
    broker.now_s = 23.0
    assert vacated(broker.wake()) == []  # it was asked a moment ago


def test_a_place_is_promised_for_when_what_is_kept_beyond_its_end_can_be_over():
    first = claim(100, 30.0, cpus=1, memory_bytes=8 << 30)
    broker = with_claims(first, free=3)
    broker.now_s = 100.0
    late = suspended(replace(first, ends_in_s=0.0), left_s=0.0, ending_s=8.0)
    changed(broker, late, free=1)
    said = broker.tell(want(1, resources=Resources(1, 1 << 30)))
    assert (promises(said), vacated(said)) == ([(1, 8.0)], [100])


def test_nobody_gives_up_what_nobody_was_promised():
    first = claim(100, 30.0, cpus=1, memory_bytes=8 << 30)
    broker = with_claims(first, free=3)
    changed(broker, suspended(first, left_s=30.0, ending_s=8.0), free=1)
    broker.now_s = 100.0
    assert vacated(broker.wake()) == []


def test_a_machine_that_says_more_cpus_are_free_than_a_claim_has_is_not_believed():
    first = claim(100, None)
    broker = LoneBroker()
    fields = {"machine": "liar", "capacity": CPUS}
    broker.tell(broker.idle(2, began=(first,), **fields))
    broker.tell(broker.idle(2, whole=False, changed=(suspended(first, freed_cpus=4),), **fields))
    assert broker.broker.state.machines["liar"].calendar.free.cpus == 2


def test_cpus_that_were_returned_while_others_took_them_are_taken_back():
    first, second = claim(100, None), claim(101, None)
    broker = with_claims(first, second, free=0)
    changed(broker, suspended(first), free=2)
    changed(broker, suspended(first, is_resuming=True))
    other = claim(102, None)
    broker.tell(broker.idle(0, whole=False, began=(other,)))  # its match came before
    assert broker.broker.state.machines["ume"].calendar.free.cpus == 0
    broker.broker.check()


def test_a_claim_that_need_not_leave_for_a_booking_any_more_keeps_its_place_for_longer():
    evictable = claim(100, 70.0, cpus=3)
    broker = with_claims(evictable, free=1)
    assert promises(broker.tell(want(1, cpus=4))) == [(1, 70.0)]
    changed(broker, replace(evictable, ends_in_s=None), bookings=())
    assert broker.broker.estimated_starts(instant(broker.now_s))[job(1)] > 70.0
