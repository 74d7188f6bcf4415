"""Many bookings that open, or are given back, at one moment: they are looked at together."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from iriai.node.booked_claims import BookedClaims
from iriai.policy.placement.calendar import Calendar
from iriai.protocol.messages.reservations import Unbook
from tests.node.booking_story import HOUR, WAKE, YAMA, begin, booking, confirm, named
from tests.node.lone_node import LoneNode
from tests.support.told import spec

MANY = 60
LATER = 2 * HOUR


def counted(monkeypatch, kind: type, name: str) -> list[None]:
    """One for each call."""
    calls: list[None] = []
    called = getattr(kind, name)

    def counting(*args, **fields):
        calls.append(None)
        return called(*args, **fields)

    monkeypatch.setattr(kind, name, counting)
    return calls


def many(count: int = MANY) -> LoneNode:
    """Each of one cpu, and a task that is there until they begin."""
    node = LoneNode(cpus=MANY)
    for number in range(count):
        confirm(node, number, cpus=1)
    node.run(1, spec(cpus=4, kill_grace_s=10.0))
    begin(node, 1)
    assert node.node._claims.bound
    return node


def test_they_open_together(monkeypatch):
    node = many()
    node.tell()
    node.now_s = HOUR - 100.0
    node.tell(WAKE)  # the task is told to leave
    sets = counted(monkeypatch, Calendar, "set_bookings")
    node.now_s = HOUR
    node.tell(WAKE)
    assert sum(kept.is_open for kept in node.node.bookings.kept.values()) >= MANY - 4
    assert len(sets) == 1


def test_they_are_given_back_together(monkeypatch):
    node = many()
    sets = counted(monkeypatch, Calendar, "set_bookings")
    extended = counted(monkeypatch, BookedClaims, "extend")
    said = node.tell(*(Unbook(named(number), 1) for number in range(MANY)))
    assert len(said.home) == MANY
    assert node.node.bookings.kept == {}
    assert node.bookings == ()
    assert (len(sets), len(extended)) == (1, 1)
    assert not node.node._claims.bound, "the task need not leave any more"


def test_who_asks_in_the_same_turn_finds_what_was_given_back():
    node = many()
    whole = booking(99, cpus=MANY - 4, home=YAMA)
    for number in range(MANY):
        node.node.handle(Unbook(named(number), 1), node.instant())
    confirm(node, 99, cpus=MANY - 4, home=YAMA)
    [kept] = node.node.bookings.stored()
    assert kept.resources == whole.resources


@settings(max_examples=30)
@given(
    freed=st.lists(st.integers(0, 7), max_size=8, unique=True),
    starts=st.lists(st.sampled_from([HOUR, LATER]), min_size=8, max_size=8),
)
def test_it_is_the_same_as_one_after_the_other(freed, starts):
    found = []
    for is_at_once in (True, False):
        node = LoneNode(cpus=8)
        for number, start_s in enumerate(starts):
            confirm(node, number, start_s, cpus=1)
        node.run(1, spec(cpus=4, kill_grace_s=10.0))
        messages = [Unbook(named(number), 1) for number in freed]
        for turn in [messages] if is_at_once else [[each] for each in messages]:
            node.tell(*turn)
        node.tell(WAKE)
        claims = [(held.claim, held.ends_by_s) for held in node.node._claims.by_attempt.values()]
        found.append((node.node.bookings.stored(), node.bookings, claims))
    assert found[0] == found[1]
