"""How much of the cluster an account may have reserved ahead, as the broker counts it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from iriai.broker.reservations.share_limit import OFFERED_MAX, OFFERED_S, ShareLimit
from iriai.config.sections import GroupSection, ReservationsSection
from iriai.model.ids import Account, ReservationId
from iriai.model.reason import Reason, Rule
from iriai.model.reservable import Reservable
from iriai.model.reservation import ReservationTerms
from iriai.model.resources import Resources
from iriai.protocol.clock_offset import Estimate
from iriai.protocol.messages.reservations import BookedTime, NodesOffered, SeekNodes
from tests.broker.lone_broker import LoneBroker, counted, want
from tests.support.told import HOME, WALL_S, instant

HOUR_S, DAY_S = 3600.0, 86_400.0
FOUR = Resources(4)
ANN, BOB = Account("lab", "ann"), Account("lab", "bob")
MACHINES = ("kaki", "nashi", HOME)


def cluster(horizon_s: float = 10 * HOUR_S, **fields) -> LoneBroker:
    """Three machines, and ten hours that may be reserved ahead: thirty node hours."""
    share_limit = fields.pop("share_limit", True)
    section = ReservationsSection(horizon_s=horizon_s, share_limit=share_limit)
    broker = LoneBroker(reservations=section, **fields)
    for name in MACHINES:
        machine(broker, name)
    return broker


def machine(broker: LoneBroker, name: str = HOME, *bookings: BookedTime, **fields) -> None:
    free = 4 if fields.get("whole", True) else 0
    broker.tell(broker.idle(free, machine=name, capacity=FOUR, bookings=bookings, **fields))


def booked(number: int, start_s: float, end_s: float, account: Account = ANN, cpus: int = 4):
    of = ReservationId(HOME, number)
    return BookedTime(of, Resources(cpus), start_s, end_s, account=account)


def seek(length_s: float, nodes: int = 1, number: int = 1, **fields) -> SeekNodes:
    start_s, account = fields.pop("start_s", 100.0), fields.pop("account", ANN)
    terms = ReservationTerms(
        account, account.user, WALL_S + start_s, WALL_S + start_s + length_s, nodes, **fields
    )
    return SeekNodes(ReservationId(HOME, number), 1, terms)


def offered(broker: LoneBroker, *asked: SeekNodes) -> NodesOffered:
    found = [each for each in broker.tell(*asked).home if isinstance(each, NodesOffered)]
    return found[-1]


def refused(broker: LoneBroker, *asked: SeekNodes) -> Reason:
    found = offered(broker, *asked)
    assert found.machines == ()
    assert found.reasons[0].rule is Rule.RESERVATION_SHARE
    return found.reasons[0]


def test_one_account_alone_gets_the_whole_cluster():
    assert offered(cluster(), seek(10 * HOUR_S, 3)).machines == MACHINES
    refused(cluster(), seek(10 * HOUR_S + 1, 3))


def test_one_of_two_that_use_it_gets_half():
    broker = cluster()
    broker.tell(counted(ann=10.0, bob=1.0))
    assert offered(broker, seek(5 * HOUR_S, 3)).machines == MACHINES
    reason = refused(cluster_of_two(), seek(6 * HOUR_S, 3))
    assert (reason.needed, "0.0 reserved of 15.0" in reason.had) == ("18.0 node hours", True)


def cluster_of_two() -> LoneBroker:
    broker = cluster()
    broker.tell(counted(ann=10.0, bob=1.0))
    return broker


def test_the_nearest_that_would_do_is_named_and_does():
    had = refused(cluster_of_two(), seek(6 * HOUR_S, 3)).had
    assert had.endswith("2 of these nodes or all for 5h00m would do")
    assert offered(cluster_of_two(), seek(6 * HOUR_S, 2)).machines
    assert offered(cluster_of_two(), seek(5 * HOUR_S, 3)).machines


def test_what_it_has_ahead_counts_without_what_is_over_of_it():
    broker = cluster_of_two()
    machine(broker, "kaki", booked(7, -DAY_S, 5 * HOUR_S), whole=False)
    machine(broker, "nashi", booked(7, -DAY_S, 5 * HOUR_S), whole=False)
    assert "10.0 reserved of 15.0" in refused(broker, seek(5.1 * HOUR_S)).had
    assert offered(broker, seek(5 * HOUR_S)).machines == (HOME,)


def test_what_others_have_does_not():
    broker = cluster_of_two()
    machine(broker, "kaki", booked(7, 0.0, 9 * HOUR_S, BOB), whole=False)
    assert offered(broker, seek(7.5 * HOUR_S, 2)).machines == ("nashi", HOME)


def test_a_part_of_a_node_counts_by_its_largest_part():
    broker = cluster_of_two()
    half = Resources(2)
    assert len(offered(broker, seek(9 * HOUR_S, 3, resources=half)).machines) == 3
    refused(broker, seek(9 * HOUR_S, 1, 2, resources=half))


def test_rights_of_users_and_groups_count():
    groups = {"lab": GroupSection(1.0, {"ann": 3.0}), "physics": GroupSection(2.0)}
    broker = cluster(groups=groups)
    broker.tell(counted(bob=5.0), want(1, "eve", group="physics", count=50, cpus=4))
    limit, now = ShareLimit(broker.broker.state), instant(0.0)
    whole_s = 30 * HOUR_S
    assert limit.allowed_s(ANN, now) == pytest.approx(whole_s / 3 * 3 / 4)
    assert limit.allowed_s(Account("physics", "eve"), now) == pytest.approx(whole_s * 2 / 3)


def test_an_account_counts_for_a_half_life_or_two_after_its_last_charge():
    broker = cluster(half_life_s=DAY_S)
    broker.tell(counted(bob=1e6))
    limit = ShareLimit(broker.broker.state)
    assert limit.allowed_s(ANN, instant(DAY_S)) == 15 * HOUR_S
    assert limit.allowed_s(ANN, instant(3 * DAY_S)) == 30 * HOUR_S


def test_so_it_is_with_a_window():
    broker = cluster(window_s=DAY_S)
    broker.tell(counted(bob=1e6))
    limit = ShareLimit(broker.broker.state)
    assert limit.allowed_s(ANN, instant(DAY_S / 2)) == 15 * HOUR_S
    assert limit.allowed_s(ANN, instant(3 * DAY_S)) == 30 * HOUR_S


def test_one_that_has_reserved_counts_though_it_never_ran_anything():
    broker = cluster()
    machine(broker, "kaki", booked(7, HOUR_S, 2 * HOUR_S, BOB), whole=False)
    refused(broker, seek(8 * HOUR_S, 2))


def test_what_is_asked_at_once_counts_together():
    broker = cluster_of_two()
    asked = [seek(5 * HOUR_S, 1, number, start_s=100.0) for number in range(1, 5)]
    said = [each for each in broker.tell(*asked).home if isinstance(each, NodesOffered)]
    assert [bool(each.machines) for each in said] == [True, True, True, False]


def test_an_offer_that_nobody_takes_is_forgotten():
    broker = cluster_of_two()
    assert offered(broker, seek(5 * HOUR_S, 3)).machines
    refused(broker, seek(HOUR_S, 1, 2))
    broker.now_s = OFFERED_S
    assert offered(broker, seek(HOUR_S, 1, 2)).machines


def test_an_offer_counts_once_when_its_booking_is_known():
    broker = cluster_of_two()
    assert offered(broker, seek(5 * HOUR_S, 2)).machines == ("kaki", "nashi")
    for name in ("kaki", "nashi"):
        machine(broker, name, booked(1, 0.0, 5 * HOUR_S), whole=False)
    assert offered(broker, seek(5 * HOUR_S, 1, 2)).machines == (HOME,)


def test_another_try_of_a_reservation_does_not_count_it_twice():
    broker = cluster_of_two()
    assert offered(broker, seek(5 * HOUR_S, 3)).machines
    again = replace(seek(5 * HOUR_S, 3), version=2)
    assert offered(broker, again).machines == MACHINES


def test_what_would_be_offered_now_is_asked_without_a_trace():
    broker = cluster_of_two()
    for number in range(3):
        assert broker.broker.offer(seek(5 * HOUR_S, 3, number), instant(0.0)).machines


def test_the_limit_can_be_switched_off():
    broker = cluster(share_limit=False)
    broker.tell(counted(bob=1.0))
    assert offered(broker, seek(10 * HOUR_S, 3)).machines == MACHINES


def test_the_earliest_start_is_within_it_too():
    refused(cluster_of_two(), seek(6 * HOUR_S, 3, is_earliest=True))


def test_offers_that_count_are_bounded():
    broker = cluster()
    limit = ShareLimit(broker.broker.state)
    for number in range(OFFERED_MAX + 5):
        limit.note(seek(60.0, 1, number), ("kaki",), instant(0.0))
    had_s = limit.had_s(ANN, ReservationId(HOME, 10**6), instant(0.0))
    assert had_s == OFFERED_MAX * 60.0


# --- what owners let be reserved -----------------------------------------------------------------


def with_owner(reservable: Reservable, *bookings: BookedTime) -> LoneBroker:
    broker = LoneBroker()
    machine(broker, HOME, *bookings, reservable=reservable)
    return broker


def test_a_machine_is_offered_for_the_part_that_may_be_reserved():
    broker = with_owner(Reservable(0.5))
    assert offered(broker, seek(HOUR_S, resources=Resources(2))).machines == (HOME,)
    for asked in (None, Resources(3)):
        found = offered(with_owner(Reservable(0.5)), seek(HOUR_S, resources=asked))
        assert found.reasons[1].rule is Rule.NOT_RESERVABLE
        assert found.earliest_wall_s is None


def test_the_earliest_start_is_when_that_part_is_free():
    broker = with_owner(Reservable(0.5), booked(7, 0.0, HOUR_S, BOB, cpus=1))
    asked = seek(HOUR_S, resources=Resources(2), is_earliest=True)
    assert offered(broker, asked).start_wall_s == pytest.approx(WALL_S + HOUR_S, abs=2.0)
    one = seek(HOUR_S, 1, 2, resources=Resources(1), is_earliest=True)
    assert offered(broker, one).start_wall_s == WALL_S + 100.0


def test_it_is_not_offered_to_users_whom_its_owner_does_not_name():
    found = offered(with_owner(Reservable(by=("bob",))), seek(HOUR_S))
    assert found.reasons[1].rule is Rule.NOT_RESERVABLE
    assert offered(with_owner(Reservable(by=("lab",))), seek(HOUR_S)).machines == (HOME,)


# --- clocks --------------------------------------------------------------------------------------


def test_how_far_off_a_clock_may_be_is_set():
    for most_s, is_offered in ((1.0, False), (5.0, True)):
        section = ReservationsSection(clock_offset_max_s=most_s)
        broker = LoneBroker(reservations=section)
        machine(broker)
        broker.broker.clock_of = lambda _: Estimate(3.0, 0.01)
        assert bool(offered(broker, seek(60.0)).machines) is is_offered


# --- the horizon ---------------------------------------------------------------------------------


def test_no_start_is_named_that_lies_beyond_the_horizon():
    section = ReservationsSection(horizon_s=HOUR_S)
    for end_s, is_known in ((0.9 * HOUR_S, True), (1.1 * HOUR_S, False)):
        broker = LoneBroker(reservations=section)
        machine(broker, HOME, booked(7, 0.0, end_s, BOB))
        found = offered(broker, seek(60.0))
        assert (found.earliest_wall_s is not None) is is_known
        assert is_known or "no start within 1h00m" in found.reasons[0].had
