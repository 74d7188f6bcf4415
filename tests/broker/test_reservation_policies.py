"""What a broker offers to reservations under each policy, and what it promises to tasks then."""

from __future__ import annotations

import pytest

from iriai.broker.machines.beside_bookings import EARLIER_S
from iriai.broker.scheduling.booking_offers import LOOKS_PER_S
from iriai.config.sections import PoolSection, ReservationsSection
from iriai.model.ad import POOL, machine_ad
from iriai.model.ids import Account, ReservationId
from iriai.model.problem import Refused
from iriai.model.ranks import RankShape
from iriai.model.reservation import ReservationTerms
from iriai.model.resources import Resources
from iriai.policy.placement.calendar import END_SLACK_S
from iriai.protocol.messages.reservations import BookedTime, NodesOffered, SeekNodes
from tests.broker.lone_broker import LoneBroker, as_running, promises, want
from tests.support.told import HOME, WALL_S, instant, only

FOUR = Resources(4)
RESERVATION = ReservationId(HOME, 7)
SLACK_S = 300.0
STAY_S = 100.0
"""Of the task that waits: its limit and the slack."""


def of_policy(policy: str, machines: tuple[str, ...] = (HOME,), **settings) -> LoneBroker:
    """Machines of four cpus; on the first of them one runs for 90 s more."""
    section = ReservationsSection(policy=policy, slack_s=SLACK_S)
    broker = LoneBroker(reservations=section, **settings)
    running = (as_running(want(100, "zoe"), ends_in_s=90.0),)
    broker.tell(broker.idle(3, machine=machines[0], capacity=FOUR, began=running))
    for name in machines[1:]:
        broker.tell(broker.idle(4, machine=name, capacity=FOUR))
    return broker


def seek(start_s: float, end_s: float, nodes: int = 1, **fields) -> SeekNodes:
    times = (WALL_S + start_s, WALL_S + end_s)
    terms = ReservationTerms(Account("lab", "ann"), "ann", *times, nodes, **fields)
    return SeekNodes(RESERVATION, 1, terms)


def offered(broker: LoneBroker, *asked, **fields) -> NodesOffered:
    return only(broker.tell(seek(*asked, **fields)).home, NodesOffered)


def book(broker: LoneBroker, start_s: float, end_s: float, machine: str = HOME):
    booked = BookedTime(RESERVATION, FOUR, start_s, end_s)
    return broker.tell(
        broker.idle(0, machine=machine, capacity=FOUR, whole=False, bookings=(booked,))
    )


def waits(broker: LoneBroker):
    """A task of the whole machine waits for the one that runs."""
    return broker.tell(want(1, cpus=4, limit_s=STAY_S - END_SLACK_S))


# --- slack ---------------------------------------------------------------------------------------


def test_with_slack_a_start_is_promised_that_much_later():
    broker = of_policy("slack")
    assert promises(waits(broker)) == [(1, 90.0 + SLACK_S)]
    told = broker.broker.explain(want(1).job, instant(broker.now_s))
    assert any("it starts in 390 s at the latest" in str(reason) for reason in told)


def test_a_reservation_takes_that_time():
    broker = of_policy("slack")
    waits(broker)
    assert offered(broker, 100.0, 380.0).machines == (HOME,)


def test_not_more_than_was_told():
    broker = of_policy("slack")
    waits(broker)
    found = offered(broker, 100.0, 90.0 + SLACK_S)
    assert found.machines == ()
    assert found.earliest_wall_s == WALL_S + 190.0 + 2 * EARLIER_S, "after the task"


def test_the_promise_stays_when_the_task_is_put_off():
    broker = of_policy("slack")
    waits(broker)
    assert promises(book(broker, 100.0, 380.0)) == []
    assert offered(broker, 380.0, 480.0).machines == (), "there is no slack left"


def test_what_was_used_is_not_offered_again():
    broker = of_policy("slack")
    waits(broker)
    book(broker, 100.0, 200.0)
    assert offered(broker, 200.0, 380.0, is_earliest=False).machines == (HOME,)
    assert offered(broker, 200.0, 392.0).machines == ()


def test_an_earlier_end_improves_the_promise_by_more_than_the_slack_alone():
    broker = of_policy("slack")
    waits(broker)
    broker.tell(
        broker.idle(0, capacity=FOUR, whole=False, began=(as_running(want(101), ends_in_s=20.0),))
    )
    broker.now_s = 10.0
    ended = (as_running(want(100, "zoe")).attempt,)
    said = broker.tell(broker.idle(0, capacity=FOUR, whole=False, ended=ended))
    assert promises(said) == [(1, 10.0 + SLACK_S)]


def test_a_parallel_task_is_put_off_as_well():
    broker = of_policy("slack", (HOME, "kaki"))
    shaped = want(1, shape=RankShape(8, 8), limit_s=STAY_S - END_SLACK_S)
    assert promises(broker.tell(shaped)) == [(1, 90.0 + SLACK_S)]
    assert offered(broker, 100.0, 380.0).machines == ("kaki",)
    assert offered(broker, 100.0, 400.0).machines == ()
    assert promises(book(broker, 100.0, 380.0, "kaki")) == []


def test_a_start_that_rests_on_no_known_end_is_not_promised_and_never_put_off():
    section = ReservationsSection(policy="slack", slack_s=SLACK_S)
    broker = LoneBroker(reservations=section)
    broker.tell(broker.idle(3, capacity=FOUR, began=(as_running(want(100, "zoe")),)))
    assert promises(waits(broker)) == []
    assert offered(broker, 100.0, 200.0).machines == ()


# --- above ---------------------------------------------------------------------------------------


def test_above_nothing_that_runs_is_in_the_way():
    broker = of_policy("above")
    assert offered(broker, 10.0, 110.0).machines == (HOME,)
    assert offered(broker, 0.0, 110.0, is_earliest=True).start_wall_s == WALL_S


def test_nor_any_promise_and_that_is_told_anew():
    broker = of_policy("above")
    assert promises(waits(broker)) == [(1, 90.0)]
    assert offered(broker, 100.0, 380.0).machines == (HOME,)
    assert promises(book(broker, 100.0, 380.0)) == [(1, 380.0)]


def test_other_reservations_are():
    broker = of_policy("above")
    booked = BookedTime(ReservationId("kaki", 1), FOUR, 100.0, 200.0)
    broker.tell(broker.idle(0, capacity=FOUR, whole=False, bookings=(booked,)))
    found = offered(broker, 150.0, 250.0)
    assert found.machines == ()
    assert "kaki-r1" in found.reasons[1].had


@pytest.mark.parametrize("nodes", [1, 2])
def test_machines_on_which_nothing_gives_way_come_first(nodes):
    broker = of_policy("above", ("akebi", "kaki", "momo"))
    assert offered(broker, 10.0, 110.0, nodes).machines == ("kaki", "momo")[:nodes]


def test_those_who_only_ask_are_answered_so_many_times_a_second():
    broker = of_policy("beside")
    for _ in range(LOOKS_PER_S):
        assert broker.broker.offer(seek(100.0, 200.0), instant(broker.now_s)).machines == (HOME,)
    with pytest.raises(Refused, match="within a second"):
        broker.broker.offer(seek(100.0, 200.0), instant(broker.now_s + 0.9))
    assert offered(broker, 100.0, 200.0).machines == (HOME,), "who reserves is answered"
    assert broker.broker.offer(seek(100.0, 200.0), instant(broker.now_s + 1.0)).machines


def test_a_head_behind_a_booking_is_not_promised_as_now_while_its_pool_is_full():
    broker = LoneBroker(pools={"blade": PoolSection(jobs_max=1)})
    ad = machine_ad({POOL: "blade"})
    booked = BookedTime(RESERVATION, FOUR, 0.0, 100.0, FOUR)
    broker.tell(broker.idle(0, capacity=FOUR, ad=ad, bookings=(booked,)))
    assert promises(waits(broker)) == [], "others may fill the pool"
    began = (as_running(want(9, "zoe")),)
    broker.tell(broker.idle(3, machine="kaki", capacity=FOUR, ad=ad, began=began))
    broker.now_s = 100.0
    over = broker.tell(broker.idle(4, capacity=FOUR, whole=False, bookings=()))
    assert promises(over) == [], "the task there has no limit"


def test_beside_promises_what_is_planned():
    broker = of_policy("beside")
    assert promises(waits(broker)) == [(1, 90.0)]
    assert offered(broker, 100.0, 380.0).machines == ()
