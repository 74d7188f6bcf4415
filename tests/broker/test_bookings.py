"""A broker and bookings: what starts before, beside and in them, and which machines it offers."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from iriai.broker.machines.beside_bookings import EARLIER_S
from iriai.broker.scheduling.booking_offers import SEEKS_OF_HOME_MAX
from iriai.config.sections import PoolSection
from iriai.model.ad import POOL, machine_ad
from iriai.model.ids import Account, ReservationId
from iriai.model.ranks import RankShape
from iriai.model.reason import Reason, Rule
from iriai.model.reservation import EVICTABLE_MIN_S, ReservationTerms
from iriai.model.resources import Resources
from iriai.policy.placement.calendar import END_SLACK_S
from iriai.protocol.clock_offset import Estimate
from iriai.protocol.messages.effects import LinkDown
from iriai.protocol.messages.reservations import BookedTime, NodesOffered, SeekNodes
from iriai.protocol.messages.scheduling import Promise, Want
from tests.broker.lone_broker import LoneBroker, as_running, matched, matches, promises, want
from tests.support.told import HOME, WALL_S, attempt, instant, job

RESERVATION = ReservationId(HOME, 7)
FOUR = Resources(4)
DRAINED = Reason(Rule.DRAINED, "iriai resume momo", "root drained it", "momo")


def booked(
    start_s: float,
    end_s: float,
    cpus: int = 4,
    left: int | None = None,
    of: ReservationId = RESERVATION,
) -> BookedTime:
    """A booking; `left` cpus of it if it is open."""
    resources = Resources(cpus)
    return BookedTime(of, resources, start_s, end_s, None if left is None else Resources(left))


def told_of(
    broker: LoneBroker, *bookings: BookedTime, machine: str = HOME, free: int = 4, **fields
):
    """A machine of four cpus tells of itself."""
    return broker.tell(
        broker.idle(free, machine=machine, capacity=FOUR, bookings=bookings, **fields)
    )


def with_booking(*bookings: BookedTime, **settings) -> LoneBroker:
    broker = LoneBroker(**settings)
    told_of(broker, *(bookings or (booked(100.0, 200.0),)))
    return broker


def limit_for(stay_s: float) -> float:
    """The limit of a task without a grace that stays so long at most."""
    return stay_s - END_SLACK_S


def inside(number: int = 1, user: str = "ann", **fields) -> Want:
    return want(number, user, reservation=RESERVATION, **fields)


def why(broker: LoneBroker, number: int) -> list[Reason]:
    return broker.broker.explain(job(number), instant(broker.now_s))


# --- ordinary tasks ------------------------------------------------------------------------------


def test_a_task_starts_that_is_over_before_the_booking():
    broker = with_booking()
    assert matched(broker.tell(want(1, limit_s=limit_for(90.0)))) == [job(1)]


def test_one_that_may_last_longer_waits_and_is_told_why():
    broker = with_booking()
    assert matched(broker.tell(want(1, limit_s=limit_for(110.0)))) == []
    assert [each.rule for each in why(broker, 1)] == [Rule.RESERVED_AHEAD, Rule.RESERVED]


def test_why_names_the_reservation():
    broker = with_booking()
    broker.tell(want(1, cpus=4), want(2, "bob", limit_s=limit_for(110.0)))
    rules = [reason for reason in why(broker, 2) if reason.rule is Rule.RESERVED_AHEAD]
    assert "ume-r7" in rules[0].needed
    assert "100 s" in rules[0].had


def test_it_is_promised_a_start_after_the_booking_and_starts_then():
    broker = with_booking()
    assert promises(broker.tell(want(1, limit_s=limit_for(110.0)))) == [(1, 200.0)]
    broker.now_s = 100.0
    told_of(broker, booked(0.0, 100.0, left=4), free=0, whole=False)
    broker.now_s = 200.0
    assert matched(told_of(broker, whole=False)) == [job(1)]


def test_it_starts_beside_a_booking_that_leaves_room():
    broker = with_booking(booked(100.0, 200.0, cpus=3))
    assert matched(broker.tell(want(1, count=9))) == [job(1)]


def test_a_place_is_promised_only_where_the_task_fits_until_its_end():
    broker = LoneBroker()
    running = (as_running(want(100, "zoe", cpus=2), ends_in_s=40.0),)
    told_of(broker, booked(100.0, 200.0), free=2, began=running)
    assert promises(broker.tell(want(1, cpus=4, limit_s=limit_for(70.0)))) == [(1, 200.0)]


def test_and_before_it_if_it_does():
    broker = LoneBroker()
    running = (as_running(want(100, "zoe", cpus=2), ends_in_s=40.0),)
    told_of(broker, booked(100.0, 200.0), free=2, began=running)
    assert promises(broker.tell(want(1, cpus=4, limit_s=limit_for(50.0)))) == [(1, 40.0)]


def test_a_booking_that_is_given_back_lets_tasks_start():
    broker = with_booking()
    assert matched(broker.tell(want(1))) == []
    assert matched(told_of(broker, whole=False, free=0)) == [job(1)]


def test_a_task_that_fills_in_leaves_a_head_its_room_until_its_end():
    broker = LoneBroker()
    running = (as_running(want(100, "zoe", cpus=2), ends_in_s=40.0),)
    told_of(broker, booked(100.0, 200.0, cpus=1), free=2, began=running)
    assert promises(broker.tell(want(1, cpus=3, limit_s=limit_for(80.0)))) == [(1, 40.0)]
    assert matched(broker.tell(want(2, "bob", limit_s=limit_for(150.0)))) == []


def test_another_machine_without_a_booking_takes_it():
    broker = with_booking()
    told_of(broker, machine="kaki")
    said = broker.tell(want(1, cpus=4))
    assert [match.seats[0].machine for match in matches(said)] == ["kaki"]


# --- evictable tasks -----------------------------------------------------------------------------


def test_an_evictable_task_starts_if_it_can_stay_for_a_while():
    broker = with_booking()
    assert matched(broker.tell(want(1, is_evictable=True, grace_s=10.0))) == [job(1)]


def test_not_where_it_had_to_leave_at_once():
    soon_s = EVICTABLE_MIN_S + 10.0 + END_SLACK_S + EARLIER_S - 0.5
    broker = with_booking(booked(soon_s, 200.0))
    said = broker.tell(want(1, is_evictable=True, grace_s=10.0))
    assert matched(said) == []
    assert promises(said) == [(1, 200.0)]


def test_others_count_on_it_to_leave_for_the_booking():
    broker = with_booking(booked(100.0, 200.0, cpus=2))
    broker.tell(want(1, cpus=3, is_evictable=True))
    assert promises(broker.tell(want(2, "bob", cpus=2, limit_s=1e4))) == [(2, 99.0)]


# --- tasks of reservations -----------------------------------------------------------------------


def test_a_task_of_a_reservation_waits_until_that_is_open():
    broker = with_booking()
    assert matched(broker.tell(inside())) == []
    assert [reason.rule for reason in why(broker, 1)] == [Rule.NOT_RESERVED]
    broker.now_s = 100.0
    assert matched(told_of(broker, booked(0.0, 100.0, left=4), whole=False)) == [job(1)]


def test_it_starts_though_nothing_is_free_on_the_machine():
    broker = with_booking(booked(-1.0, 100.0, left=4))
    assert matched(broker.tell(want(2, "bob"))) == []
    assert matched(broker.tell(inside(count=9))) == [job(1)] * 4


def test_why_says_what_is_left_of_it():
    broker = with_booking(booked(-1.0, 100.0, left=4))
    broker.tell(inside(1, cpus=3), inside(2, cpus=2))
    reason = why(broker, 2)[0]
    assert (reason.rule, reason.machine) == (Rule.MACHINE_BUSY, HOME)
    assert "1 cpu left in ume-r7" in reason.had


def test_why_says_that_it_is_too_small_for_ever():
    broker = with_booking(booked(-1.0, 100.0, cpus=2, left=2))
    assert matched(broker.tell(inside(cpus=3))) == []
    assert why(broker, 1)[0].rule is Rule.NOT_RESERVED


def test_a_task_beside_it_takes_what_it_leaves_and_no_more():
    broker = with_booking(booked(-1.0, 100.0, cpus=3, left=3))
    assert matched(broker.tell(want(2, "bob", limit_s=limit_for(50.0), count=9))) == [job(2)]
    assert why(broker, 2)[-1].rule is Rule.RESERVED_AHEAD


def test_its_end_makes_room_for_the_next_inside_alone():
    broker = with_booking(booked(-1.0, 100.0, left=4))
    match = matches(broker.tell(inside(1, cpus=4, limit_s=50.0)))[0]
    running = replace(
        as_running(inside(1, cpus=4, limit_s=50.0), ends_in_s=60.0),
        capability=match.seats[0].capability,
        reservation=RESERVATION,
    )
    spent = (match.seats[0].capability,)
    full = (booked(-1.0, 100.0, left=0),)
    broker.tell(broker.idle(1, whole=False, began=(running,), spent=spent, bookings=full))
    assert matched(broker.tell(want(3, "bob"), inside(2, cpus=4))) == []
    again = (booked(-1.0, 100.0, left=4),)
    over = broker.idle(1, whole=False, ended=(attempt(1),), bookings=again)
    assert matched(broker.tell(over)) == [job(2)]


def test_no_place_is_kept_for_it():
    broker = with_booking(booked(-1.0, 100.0, left=4))
    said = broker.tell(inside(1, cpus=4), inside(2, "bob", cpus=4))
    assert promises(said) == []
    assert not broker.broker.state.reserved


def test_all_seats_of_a_parallel_task_are_inside():
    broker = with_booking(booked(-1.0, 100.0, left=4))
    told_of(broker, booked(-1.0, 100.0, left=4), machine="kaki")
    told_of(broker, machine="nashi")
    said = broker.tell(inside(shape=RankShape(8, 8)))
    assert sorted(seat.machine for seat in matches(said)[0].seats) == ["kaki", HOME]
    broker.tell(inside(2, "bob", shape=RankShape(2, 2)))
    assert why(broker, 2)[0].rule is Rule.MACHINE_BUSY


def test_a_parallel_task_larger_than_the_reservation_never_starts():
    broker = with_booking(booked(-1.0, 100.0, left=4))
    told_of(broker, machine="kaki")
    assert matched(broker.tell(inside(shape=RankShape(8, 8)))) == []


def test_a_reservation_that_closes_leaves_its_tasks_waiting_and_the_machine_to_others():
    broker = with_booking(booked(-1.0, 100.0, left=4))
    broker.tell(inside(1, cpus=3), inside(2, cpus=4), want(3, "bob"))
    broker.now_s = 100.0
    assert matched(told_of(broker, whole=False, free=1)) == [job(3)]
    assert why(broker, 2)[0].rule is Rule.NOT_RESERVED
    assert why(broker, 2)[0].had == "no machine has told of it"


def test_an_exclusive_task_needs_a_whole_machine_in_the_reservation():
    broker = with_booking(booked(-1.0, 100.0, cpus=3, left=3))
    assert matched(broker.tell(inside(exclusive=True))) == []
    said = told_of(broker, booked(-1.0, 100.0, left=4), machine="kaki")
    assert [each.seats[0].machine for each in matches(said)] == ["kaki"]


def test_a_claim_that_outlives_its_reservation_is_an_ordinary_one():
    broker = with_booking(booked(-1.0, 100.0, left=4))
    match = matches(broker.tell(inside(1, cpus=3)))[0]
    running = replace(as_running(inside(1, cpus=3)), reservation=RESERVATION)
    running = replace(running, capability=match.seats[0].capability)
    spent = (match.seats[0].capability,)
    broker.tell(broker.idle(4, whole=False, began=(running,), spent=spent))
    on = replace(running, reservation=None)
    broker.tell(want(2, "bob", count=9))
    assert matched(told_of(broker, whole=False, changed=(on,))) == [job(2)]


def test_a_reservation_is_forgotten_with_its_machine():
    broker = with_booking(booked(-1.0, 100.0, left=4))
    told_of(broker, machine="kaki")
    broker.tell(inside(1), LinkDown(HOME))
    broker.broker.forget_machine(HOME, instant(0.0))
    broker.tell(inside(1))
    assert not broker.broker.state.index.booked.open
    assert why(broker, 1)[0].rule is Rule.NOT_RESERVED


# --- policies with a plan ------------------------------------------------------------------------


def test_a_plan_of_all_places_respects_bookings():
    broker = with_booking(backfill="conservative")
    said = broker.tell(want(1, limit_s=limit_for(110.0)), want(2, limit_s=limit_for(90.0)))
    assert (matched(said), promises(said)) == ([job(2)], [(1, 200.0)])


def test_a_plan_lets_an_evictable_task_start_before_a_booking():
    broker = with_booking(backfill="conservative")
    assert matched(broker.tell(want(1, is_evictable=True))) == [job(1)]


def test_a_plan_keeps_its_promise_from_an_evictable_task():
    broker = LoneBroker(backfill="conservative")
    running = (as_running(want(100, "zoe", cpus=2), ends_in_s=70.0),)
    told_of(broker, booked(1000.0, 1100.0), free=2, began=running)
    assert promises(broker.tell(want(1, cpus=4, limit_s=limit_for(100.0)))) == [(1, 70.0)]
    assert matched(broker.tell(want(2, "bob", cpus=2, is_evictable=True))) == []


def test_a_plan_without_bookings_takes_no_task_for_evicted():
    broker = LoneBroker(backfill="conservative")
    running = (as_running(want(100, "zoe", cpus=2), ends_in_s=70.0),)
    told_of(broker, free=2, began=running)
    assert promises(broker.tell(want(1, cpus=4, limit_s=limit_for(100.0)))) == [(1, 70.0)]
    assert matched(broker.tell(want(2, "bob", cpus=2, is_evictable=True))) == []


def test_with_a_plan_tasks_of_reservations_start_too():
    broker = with_booking(booked(-1.0, 100.0, left=4), backfill="conservative")
    assert matched(broker.tell(inside(count=5))) == [job(1)] * 4
    assert why(broker, 1)[0].rule is Rule.MACHINE_BUSY


# --- offers --------------------------------------------------------------------------------------


def seek(start_s: float = 100.0, end_s: float = 200.0, nodes: int = 1, **fields) -> SeekNodes:
    """Terms by seconds from the begin of the test."""
    without = fields.pop("without", ())
    version = fields.pop("version", 1)
    of = fields.pop("of", RESERVATION)
    terms = ReservationTerms(
        Account("lab", "ann"), "ann", WALL_S + start_s, WALL_S + end_s, nodes, **fields
    )
    return SeekNodes(of, version, terms, without)


def offers(said) -> list[NodesOffered]:
    return [message for message in said.home if isinstance(message, NodesOffered)]


def offered(broker: LoneBroker, *seeks: SeekNodes) -> NodesOffered:
    (found,) = offers(broker.tell(*seeks))
    return found


def three_machines(**fields) -> LoneBroker:
    broker = LoneBroker()
    for name in ("nashi", HOME, "kaki"):
        told_of(broker, machine=name, **fields)
    return broker


def test_machines_are_offered_in_the_order_of_their_names():
    found = offered(three_machines(), seek(nodes=3))
    assert found.machines == ("kaki", "nashi", HOME)
    assert (found.reservation, found.version, found.start_wall_s) == (
        RESERVATION,
        1,
        WALL_S + 100.0,
    )


def test_not_those_that_refused():
    assert offered(three_machines(), seek(nodes=2, without=("kaki",))).machines == ("nashi", HOME)


def test_not_where_a_claim_may_last_into_it():
    broker = LoneBroker()
    running = (as_running(want(100, "zoe"), ends_in_s=150.0),)
    told_of(broker, began=running)
    found = offered(broker, seek())
    assert found.machines == ()
    assert Rule.MACHINE_BUSY in {reason.rule for reason in found.reasons}
    assert found.earliest_wall_s == WALL_S + 150.0 + EARLIER_S
    assert offered(broker, seek(resources=Resources(3))).machines == (HOME,)


def test_not_where_another_has_booked():
    found = offered(with_booking(booked(150.0, 250.0, of=ReservationId("kaki", 1))), seek())
    reason = next(each for each in found.reasons if each.rule is Rule.RESERVED_AHEAD)
    assert "kaki-r1" in reason.had
    assert found.earliest_wall_s == WALL_S + 250.0 + EARLIER_S


def test_the_earliest_start_can_be_asked_for():
    broker = with_booking(booked(150.0, 250.0, of=ReservationId("kaki", 1)))
    found = offered(broker, seek(is_earliest=True))
    assert (found.machines, found.start_wall_s) == ((HOME,), WALL_S + 250.0 + EARLIER_S)


def test_the_earliest_start_of_several_is_when_all_are_free():
    broker = three_machines()
    for name, start_s in (("kaki", 50.0), ("nashi", 120.0)):
        told_of(broker, booked(start_s, start_s + 100.0), machine=name, whole=False)
    found = offered(broker, seek(0.0, 60.0, nodes=3, is_earliest=True))
    assert found.start_wall_s == WALL_S + 220.0 + EARLIER_S
    assert offered(broker, seek(0.0, 60.0, nodes=2, is_earliest=True)).start_wall_s == WALL_S


def test_a_promised_place_is_not_offered():
    broker = LoneBroker()
    running = (as_running(want(100, "zoe"), ends_in_s=90.0),)
    told_of(broker, free=3, began=running)
    assert promises(broker.tell(want(1, cpus=4, limit_s=limit_for(100.0)))) == [(1, 90.0)]
    found = offered(broker, seek())
    assert found.machines == ()
    assert Rule.RESERVED_HEAD_AHEAD in {reason.rule for reason in found.reasons}
    assert found.earliest_wall_s == WALL_S + 190.0 + 2 * EARLIER_S


def test_nor_one_of_a_parallel_task():
    broker = LoneBroker()
    running = (as_running(want(100, "zoe"), ends_in_s=90.0),)
    told_of(broker, free=3, began=running)
    told_of(broker, machine="kaki")
    shaped = want(1, shape=RankShape(8, 8), limit_s=limit_for(100.0))
    assert promises(broker.tell(shaped)) == [(1, 90.0)]
    assert offered(broker, seek()).machines == ()
    assert offered(broker, seek(300.0, 400.0, nodes=2)).machines == ("kaki", HOME)


def test_nor_one_of_a_plan():
    broker = LoneBroker(backfill="conservative")
    running = (as_running(want(100, "zoe"), ends_in_s=90.0),)
    told_of(broker, free=3, began=running)
    broker.tell(want(1, cpus=4, limit_s=limit_for(100.0)))
    assert offered(broker, seek()).machines == ()
    assert offered(broker, seek(300.0, 400.0)).machines == (HOME,)


def test_a_place_for_a_task_without_a_limit_is_never_offered():
    for backfill in ("easy", "conservative"):
        broker = LoneBroker(backfill=backfill)
        running = (as_running(want(100, "zoe"), ends_in_s=90.0),)
        told_of(broker, free=3, began=running)
        broker.tell(want(1, cpus=4))
        found = offered(broker, seek())
        assert (found.machines, found.earliest_wall_s) == ((), None)
        assert "in any time that is known" in found.reasons[1].had


def test_machines_that_take_no_tasks_are_not_offered():
    drained = Reason(Rule.DRAINED, "that it is resumed", "drained by ann")
    broker = LoneBroker()
    told_of(broker, unavailable=drained)
    assert drained in offered(broker, seek()).reasons


def test_a_machine_that_is_too_small_says_so_first():
    found = offered(three_machines(), seek(resources=Resources(8)))
    assert {reason.rule for reason in found.reasons[1:]} == {Rule.NO_MACHINE_LARGE_ENOUGH}
    assert found.earliest_wall_s is None


def test_requirements_are_met():
    broker = three_machines()
    found = offered(broker, seek(requirements='Machine == "kaki"'))
    assert found.machines == ("kaki",)
    found = offered(broker, seek(nodes=2, requirements='Machine == "kaki"'))
    assert Rule.REQUIREMENTS in {reason.rule for reason in found.reasons}


def test_machines_without_owners_and_bookings_come_first():
    broker = LoneBroker()
    told_of(broker, booked(1e4, 2e4), machine="ichigo")
    told_of(broker, machine="kaki", expected_idle_s=1e6)
    told_of(broker, machine="nashi")
    assert offered(broker, seek()).machines == ("nashi",)
    assert offered(broker, seek(nodes=2)).machines == ("ichigo", "nashi")


def test_a_start_that_has_just_passed_is_now():
    broker = three_machines()
    broker.now_s = 101.0
    assert offered(broker, seek()).machines == ("kaki",)


def test_a_time_that_is_over_or_too_short_is_not_offered():
    broker = three_machines()
    assert offered(broker, seek(100.0, 110.0)).machines == ()
    broker.now_s = 300.0
    assert offered(broker, seek()).machines == ()


def test_of_two_questions_about_a_reservation_the_later_counts():
    broker = three_machines()
    found = offered(broker, seek(version=2, nodes=2), seek(version=1))
    assert (found.version, len(found.machines)) == (2, 2)


def test_many_questions_are_answered_in_several_turns_and_those_of_other_homes_too():
    broker = three_machines()
    seeks = [seek(of=ReservationId("nashi", number)) for number in range(1, 1_000)]
    found = offers(broker.tell(*seeks, seek()))
    assert len(found) == SEEKS_OF_HOME_MAX + 1
    assert found[-1].reservation == RESERVATION


# --- what a machine says wrongly -----------------------------------------------------------------


def test_a_machine_that_books_more_than_it_has_harms_itself_alone():
    broker = LoneBroker()
    lies = (booked(-1.0, 100.0, cpus=10**9, left=5), booked(50.0, 10.0), booked(0.0, 1e11))
    told_of(broker, *lies)
    told_of(broker, machine="kaki")
    said = broker.tell(want(1), inside(2, "bob"))
    assert [each.seats[0].machine for each in matches(said) if each.job == job(1)] == ["kaki"]


def in_bounded_pool(*bookings: BookedTime, most: int = 1) -> LoneBroker:
    """Two machines of a pool that may run so many tasks; one of them has bookings."""
    broker = LoneBroker(pools={"blade": PoolSection(jobs_max=most)})
    ad = machine_ad({POOL: "blade"})
    told_of(broker, machine="momo", free=1, ad=ad, unavailable=DRAINED)
    told_of(broker, *bookings, ad=ad)
    return broker


def test_a_start_behind_a_booking_is_not_promised_where_others_may_fill_the_pool():
    broker = in_bounded_pool(booked(10.0, 200.0))
    limit_s = limit_for(100.0)
    assert promises(broker.tell(want(1, limit_s=limit_s))) == []
    assert HOME in broker.broker.state.reserved
    unbounded = with_booking(booked(10.0, 200.0))
    assert len(promises(unbounded.tell(want(1, limit_s=limit_s)))) == 1


def test_the_place_behind_a_booking_that_is_over_counts_from_the_first_end_in_the_pool():
    broker = in_bounded_pool(booked(10.0, 200.0))
    broker.tell(want(1, limit_s=limit_for(100.0)))
    running = as_running(want(2), ends_in_s=500.0)
    told_of(broker, machine="momo", free=0, whole=False, began=(running,))
    told_of(broker, whole=False)
    assert {head.start_s for head in broker.broker.state.reserved.values()} == {500.0}


def beside_a_full_pool() -> LoneBroker:
    """Of two machines of a pool that is full, one has room; a third one is reserved."""
    broker = LoneBroker(pools={"blade": PoolSection(jobs_max=1)})
    ad, began = machine_ad({POOL: "blade"}), (as_running(want(9), ends_in_s=50.0),)
    told_of(broker, machine="kaki", free=3, ad=ad, began=began)
    told_of(broker, machine="nashi", ad=ad)
    told_of(broker, booked(-1.0, 200.0, left=4))
    return broker


def test_what_waits_for_a_full_pool_alone_is_promised_nothing():
    broker = beside_a_full_pool()
    said = broker.tell(inside(1), want(2, "bob", cpus=2), want(3, "eve", cpus=3))
    assert matched(said) == [job(1)], "in the reservation"
    assert "kaki" not in [each.machine for each in said.home if isinstance(each, Promise)]
    assert set(broker.broker.state.reserved) <= {HOME}, "behind the booking"
    said = broker.tell(want(4, "zoe", cpus=4))
    assert promises(said) == [], "nashi has room for it once the pool has"
    over = {"ended": (attempt(9),), "capabilities": broker.capabilities(1)}
    assert len(matches(told_of(broker, machine="kaki", free=0, whole=False, **over))) == 1


def test_nor_is_a_parallel_task():
    said = beside_a_full_pool().tell(inside(1), want(2, "bob", shape=RankShape(6, 6)))
    assert (matched(said), promises(said)) == ([job(1)], [])


# --- clocks --------------------------------------------------------------------------------------


def by_clocks(broker: LoneBroker, **ahead_s: float) -> LoneBroker:
    """The wall clocks of these machines are so much ahead of the broker's."""
    broker.broker.clock_of = lambda machine: (
        Estimate(ahead_s[machine], 0.01) if machine in ahead_s else None
    )
    return broker


@pytest.mark.parametrize(("ahead_s", "words"), [(37.0, "ahead"), (-2.1, "behind")])
def test_a_machine_whose_clock_is_off_is_not_offered_and_named(ahead_s, words):
    broker = by_clocks(three_machines(), nashi=ahead_s, kaki=1.9)
    assert offered(broker, seek(nodes=2)).machines == ("kaki", HOME)
    (reason,) = (each for each in offered(broker, seek(nodes=3)).reasons if each.machine)
    assert (reason.machine, words in reason.had) == ("nashi", True)


@pytest.mark.parametrize("ahead_s", [-1.5, 0.0, 1.5])
def test_a_booking_that_opens_by_a_clock_that_is_off_moves_no_promise(ahead_s):
    stay_s = 40.0
    broker = by_clocks(LoneBroker(), **{HOME: ahead_s})
    told_of(broker, free=2, began=(as_running(want(9, cpus=2), ends_in_s=50.0),))
    assert promises(broker.tell(want(1, cpus=4, limit_s=limit_for(stay_s)))) == [(1, 50.0)]
    first_s = 50.0 + stay_s + EARLIER_S + ahead_s
    assert offered(broker, seek(first_s - 0.1, first_s + 100.0)).machines == ()
    assert offered(broker, seek(first_s + 0.1, first_s + 100.0)).machines == (HOME,)
    opens_in_s = first_s + 0.1 - ahead_s
    said = told_of(broker, booked(opens_in_s, opens_in_s + 100.0), whole=False, free=0)
    assert promises(said) == []
    assert broker.broker.state.reserved[HOME].start_s == 50.0
