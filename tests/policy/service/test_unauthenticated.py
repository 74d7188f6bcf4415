"""Who gives way of those who have not proved who they are."""

from __future__ import annotations

import pytest

from iriai.policy.service.unauthenticated import (
    SILENT_S,
    SPEAKING_S,
    Bounds,
    UnauthenticatedConnections,
    source_of,
)


class Door:
    """Connections are numbers; `spoken` are those over which something came."""

    def __init__(self, in_all: int, of_source: int) -> None:
        self.spoken: set[int] = set()
        self.room: UnauthenticatedConnections[int] = UnauthenticatedConnections(
            Bounds(in_all, of_source), self.spoken.__contains__
        )
        self.closed: list[int] = []
        self.now_s = 0.0

    def comes(self, number: int, source: str) -> str:
        """A connection comes; why it is not taken, or nothing."""
        goes, why = self.room.who_goes(source, self.now_s)
        for each in goes:
            self.room.leave(each)
            self.closed.append(each)
        if not why:
            self.room.enter(number, source, self.now_s)
        return why


def test_of_a_source_that_has_its_share_a_silent_one_gives_way():
    door = Door(in_all=10, of_source=3)
    for number in (1, 2, 3):
        assert not door.comes(number, "a")
    door.spoken.add(1)
    door.now_s = SILENT_S
    assert not door.comes(4, "a")
    assert door.closed == [2]


def test_many_that_come_at_once_do_not_push_each_other_out():
    door = Door(in_all=10, of_source=3)
    said = [door.comes(number, "a") for number in range(5)]
    assert said[:3] == ["", "", ""]
    assert all("of its connections" in words for words in said[3:])
    assert door.closed == []


def test_one_that_speaks_has_longer():
    door = Door(in_all=10, of_source=1)
    door.spoken.add(1)
    door.comes(1, "a")
    door.now_s = SILENT_S
    assert door.comes(2, "a")
    door.now_s = SPEAKING_S
    assert not door.comes(2, "a")
    assert door.closed == [1]


def test_where_all_room_is_used_whoever_has_most_gives_way():
    """T9e: silent connections of one address took the room of all."""
    door = Door(in_all=5, of_source=4)
    door.comes(0, "honest")
    for number in range(1, 5):
        door.comes(number, "oni")
    door.now_s = SILENT_S
    assert not door.comes(5, "another")
    assert door.closed == [1]


def test_whoever_has_left_makes_room_once():
    door = Door(in_all=1, of_source=1)
    door.comes(1, "a")
    door.room.leave(1)
    door.room.leave(1)
    assert not door.comes(2, "a")
    assert door.comes(3, "b")


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("10.0.0.1", "10.0.0.2", False),
        ("10.0.0.1", "::ffff:10.0.0.1", True),
        ("2001:db8::1", "2001:db8::ffff:2", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("fe80::1%eth0", "fe80::2%eth1", True),
        ("no address", "no address", True),
    ],
)
def test_who_is_behind_an_address(one: str, other: str, is_same: bool):
    assert (source_of(one) == source_of(other)) is is_same
