"""Homes and machines that lie about reservations: what it comes to is theirs alone (017)."""

from __future__ import annotations

from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from iriai.model.bounds import NUMBER_MAX
from iriai.model.claim import Phase
from iriai.model.ids import Account, ReservationId
from iriai.model.reason import Reason, Rule
from iriai.model.reservation import LENGTH_MAX_S, BookedVersion, ReservationState
from iriai.model.resources import Resources
from iriai.protocol.delivery.authorization import is_authorized
from iriai.protocol.ledger.use_bounds import UseBounds
from iriai.protocol.messages.reservations import (
    Book,
    Booked,
    NodesOffered,
    NotBooked,
    SeekNodes,
    Unbook,
)
from tests.broker.lone_broker import LoneBroker
from tests.broker.test_bookings import booked as booked_time
from tests.broker.test_bookings import offered, seek, told_of
from tests.home.reserving import ReservingHome
from tests.home.reserving import named as own
from tests.node.booking_story import HOUR, YAMA, booking, confirm, hold, named, opened, until
from tests.node.lone_node import LoneNode
from tests.node.test_unused_charges import FOR_EVER_S, used_s
from tests.support.told import HOME, WALL_S, only

LIAR = "oni"
BOB = Account("lab", "bob")
FOUR = Resources(4)
DAY_S = 86_400.0
IN_USE = Reason(Rule.OWNER_ACTIVE, "its owner to leave", "they type", "kaki")
DRAINED = Reason(Rule.DRAINED, "iriai resume a", "root drained it", "a")

# --- whose reservation it is ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "message",
    [
        Book(booking(home=HOME)),
        Unbook(named(), 1),
        Unbook(named(), NUMBER_MAX, is_no_show=True),
        replace(seek(100.0, 200.0), kept=(YAMA,)),
    ],
    ids=lambda each: type(each).__name__,
)
def test_nobody_speaks_for_another_home(message):
    assert is_authorized(HOME, YAMA, message)
    assert not is_authorized(LIAR, YAMA, message)


@pytest.mark.parametrize(
    "message",
    [
        Booked(own(), 1, YAMA, Phase.CONFIRMED, unable=DRAINED),
        NotBooked(own(), 1, YAMA, DRAINED),
    ],
    ids=lambda each: type(each).__name__,
)
def test_nobody_speaks_for_another_machine_nor_to_another_home(message):
    assert is_authorized(YAMA, HOME, message)
    assert not is_authorized(LIAR, HOME, message)
    assert not is_authorized(YAMA, LIAR, message)


# --- a home that lies to a machine ---------------------------------------------------------------


def no_show(node: LoneNode, number: int, length_s: float, **changes) -> None:
    """A home books, and says at once that nobody came."""
    confirm(node, number, start_s=node.now_s, length_s=length_s, home=LIAR, **changes)
    node.wait(60.0)
    until(node, node.now_s)
    node.tell(Unbook(named(number, LIAR), NUMBER_MAX, is_no_show=True))


def most_s(node: LoneNode) -> float:
    """A quarter of the longest booking of all four cpus, the time, and that once more ahead."""
    return 4 * (0.25 * LENGTH_MAX_S + 2 * node.now_s) * (1 + 1e-9)


def test_who_says_again_and_again_that_nobody_came_charges_others_with_one_time_at_most():
    node = LoneNode(half_life_s=FOR_EVER_S)
    for number in range(50):
        no_show(node, number, LENGTH_MAX_S)
    charged_s = used_s(node)
    assert charged_s <= most_s(node)
    node.wait(DAY_S)
    no_show(node, 99, LENGTH_MAX_S)
    assert 4 * DAY_S <= used_s(node) - charged_s <= 4 * (DAY_S + 120.0)


@pytest.mark.parametrize("half_life_s", [HOUR, 7 * DAY_S])
def test_and_the_machine_is_not_taken_for_a_liar(half_life_s):
    """It was: its usage grew by more than a machine of its size can have counted."""
    node = LoneNode(half_life_s=half_life_s)
    its = node.node.bookings._settings
    bounds = UseBounds(its.fading)
    for number in range(30):
        no_show(node, number, LENGTH_MAX_S)
        rows = node.node.ledger.rows()
        assert not bounds.excess(HOME, rows, its.rate, node.instant())


@settings(max_examples=25)
@given(
    parts=st.lists(st.tuples(st.integers(1, 4), st.floats(60.0, LENGTH_MAX_S)), max_size=4),
    pause_s=st.floats(0.0, DAY_S),
)
def test_whatever_is_said_of_no_shows_more_than_time_and_one_quarter_is_never_charged(
    parts, pause_s
):
    node = LoneNode(half_life_s=FOR_EVER_S)
    for number, (cpus, length_s) in enumerate(parts):
        no_show(node, number, length_s, cpus=cpus)
        node.wait(pause_s)
    assert used_s(node) <= most_s(node)


def test_what_a_home_says_is_kept_beside_a_booking_is_not_believed():
    """Only the node knows what it keeps: a later version in a message is none."""
    node = LoneNode()
    later = BookedVersion(
        2, WALL_S, WALL_S + LENGTH_MAX_S, Resources(10_000), phase=Phase.CONFIRMED
    )
    said = node.tell(Book(replace(booking(), later=later)))
    assert only(said.home, Booked).version == 1
    [kept] = node.node.bookings.stored()
    assert kept.later is None


@pytest.mark.parametrize(
    ("first", "last"), [(0, 0), (2, 1), (2, NUMBER_MAX), (NUMBER_MAX, NUMBER_MAX), (NUMBER_MAX, 0)]
)
def test_versions_that_are_not_there_free_nothing(first, last):
    node = opened()
    said = node.tell(Unbook(named(), last, first, is_no_show=True))
    assert only(said.home, NotBooked).version == last
    assert [kept.version for kept in node.node.bookings.stored()] == [1]
    assert node.node.bookings.kept[named()].is_open


def test_a_version_beyond_all_leaves_the_booking_that_stands_and_no_other_after_it():
    """It is the end of that reservation's modifications, and of nothing else."""
    node = opened(cpus=2)
    confirm(node, start_s=HOUR, length_s=2 * HOUR, cpus=2, version=NUMBER_MAX)
    said = hold(node, start_s=HOUR, length_s=2 * HOUR, cpus=2, version=3)
    assert only(said.home, NotBooked).reason.rule is Rule.NOT_RESERVED
    assert only(hold(node, 8, start_s=2 * HOUR, cpus=2, home=YAMA).home, Booked)
    node.tell(Unbook(named(), NUMBER_MAX))
    assert [kept.reservation for kept in node.node.bookings.stored()] == [named(8, YAMA)]


def test_later_versions_in_turn_are_two_at_a_time():
    node = opened(cpus=1)
    for version in range(2, 60):
        confirm(node, start_s=HOUR, length_s=HOUR + version, cpus=1, version=version)
        [kept] = node.node.bookings.stored()
        assert kept.later is not None
        assert (kept.version, kept.later.version) == (version - 1, version)
    assert len(node.node.bookings.kept) == 1


# --- a home that lies to the broker --------------------------------------------------------------


def clusters_of_three() -> LoneBroker:
    """Of four cpus each; one is another home's for long, and the owner of one types."""
    broker = LoneBroker()
    told_of(broker, booked_time(0.0, 1000.0, left=4), machine=HOME)
    told_of(broker, machine="kaki", unavailable=IN_USE)
    told_of(broker, machine="nashi")
    return broker


def kept_by_word(broker: LoneBroker, *, nodes: int) -> NodesOffered:
    lie = replace(
        seek(100.0, 200.0, nodes=nodes),
        reservation=ReservationId(LIAR, 1),
        version=2,
        kept=(HOME, "kaki", "nashi", "not-there"),
    )
    return offered(broker, lie)


def test_what_a_home_says_it_has_is_not_free_for_it_where_others_have_it():
    assert kept_by_word(clusters_of_three(), nodes=1).machines == ("nashi",)
    answer = kept_by_word(clusters_of_three(), nodes=2)
    assert answer.machines == ()
    assert "ume-r7 has it" in str(answer.reasons)


def test_nor_is_a_machine_whose_owner_is_there():
    """A machine that has a booking keeps it meanwhile; one that never had it is left alone."""
    rules = [each.rule for each in kept_by_word(clusters_of_three(), nodes=3).reasons]
    assert Rule.OWNER_ACTIVE in rules


def test_what_it_says_it_has_of_another_home_is_not_heard():
    lie = replace(seek(100.0, 200.0), version=9, kept=(HOME,))
    assert lie.reservation.home == HOME
    assert not is_authorized(LIAR, "broker", lie)


def test_a_flood_of_versions_is_one_question():
    broker = clusters_of_three()
    numbers = count(1)
    lies = [
        replace(seek(100.0, 200.0), reservation=ReservationId(LIAR, 1), version=next(numbers))
        for _ in range(500)
    ]
    said = broker.tell(*lies)
    assert [each.version for each in said.home if isinstance(each, NodesOffered)] == [500]


@given(kept=st.lists(st.sampled_from([HOME, "kaki", "nashi", "m", ""]), max_size=6))
def test_whatever_it_says_it_has_only_what_is_free_is_offered(kept):
    lie = replace(seek(100.0, 200.0), reservation=ReservationId(LIAR, 1), kept=tuple(kept))
    assert offered(clusters_of_three(), lie).machines == ("nashi",)


# --- machines that lie to a home -----------------------------------------------------------------


def test_a_machine_that_it_does_not_have_degrades_nothing():
    home = ReservingHome()
    home.confirmed("a", "b")
    for phase in Phase:
        home.tell(Booked(own(), 1, LIAR, phase, unable=DRAINED))
        assert home.of().missing == ()
        assert home.sent(Unbook) == [LIAR], "it has nothing to keep"
    home.tell(NotBooked(own(), 1, LIAR, DRAINED))
    assert home.of().missing == ()


def test_one_that_lies_of_itself_is_replaced_alone():
    home = ReservingHome()
    home.confirmed("a", "b")
    home.tell(Booked(own(), 1, "a", Phase.CONFIRMED, unable=DRAINED))
    assert home.of().missing == ("a",)
    [asked] = [each for each in home.wait(600.0).broker if isinstance(each, SeekNodes)]
    assert asked.kept == ("b",)
    assert "a" in asked.without


@given(
    lies=st.lists(
        st.builds(
            Booked,
            st.builds(ReservationId, st.sampled_from([HOME, LIAR]), st.integers(0, 3)),
            st.sampled_from([0, 1, 2, 3, NUMBER_MAX]),
            st.just(LIAR),
            st.sampled_from(Phase),
            st.sampled_from([None, DRAINED]),
        ),
        max_size=8,
    )
)
def test_whatever_a_stranger_says_it_has_a_reservation_stays_as_it_is(lies):
    home = ReservingHome()
    home.confirmed("a", "b")
    before = home.of()
    home.tell(*lies)
    assert home.of() == before
    assert home.of().state is ReservationState.CONFIRMED
