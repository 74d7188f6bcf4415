"""Room that many share."""

from __future__ import annotations

from iriai.policy.service.shared_quota import SharedQuota


def test_one_may_have_all_while_nobody_else_wants_any():
    room = SharedQuota(100)
    assert room.hold("oni", 100)
    assert not room.hold("oni", 101)


def test_when_there_is_no_more_nobody_has_more_than_a_share():
    """T9g: unfinished frames of a few members took the memory of all."""
    room = SharedQuota(100)
    assert room.hold("oni", 90)
    assert room.hold("ume", 50)
    assert not room.hold("oni", 91)
    assert room.hold("oni", 0)
    assert room.hold("ume", 90)


def test_what_is_given_back_is_there_again():
    room = SharedQuota(100)
    for who in range(1_000):
        assert room.hold(who, 100)
        assert room.hold(who, 0)
    assert room.held == 0
