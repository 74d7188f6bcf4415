"""Tokens that a user sees, clocks that are off, and what is wrong with a machine itself."""

from iriai.identity.storage.join_tokens import IssuedToken
from iriai.model.token_text import TokenKind
from iriai.reports.cluster import clock_trouble, token_table
from iriai.reports.status import own_trouble, room, work
from iriai.wire.machines import LinkRow
from tests.broker.lone_broker import LoneBroker
from tests.reports.test_nodes import machine_of


def token(number: str, **other) -> IssuedToken:
    known = {"made_by": "root", "ends_wall_s": 100.0} | other
    return IssuedToken(number, TokenKind.JOIN, "", made_wall_s=0.0, **known)


def test_a_user_sees_the_tokens_that_they_made_or_may_use():
    tokens = [
        token("1"),
        token("2", made_by="ann", user="ann"),
        token("3", user="ann", revoked=True),
        token("4", made_by="bob", user="bob", ends_wall_s=5.0),
        token("5", used_by="take"),
    ]
    assert [row.id for row in token_table(tokens, "ann", 10.0).rows] == ["2", "3"]
    states = {row.id: row.state for row in token_table(tokens, None, 10.0).rows}
    assert states == {"1": "good", "2": "good", "3": "revoked", "4": "over", "5": "used"}


def test_a_clock_that_is_off_by_more_than_a_minute_is_named():
    links = [
        LinkRow("take", True, "", offset_s=-90.0),
        LinkRow("kiku", True, "", offset_s=30.0),
        LinkRow("fuji", False, ""),
    ]
    assert clock_trouble(links) == ["the clock of take is -90 s off this machine's"]


def test_a_front_end_has_jobs_and_no_room_and_says_what_is_wrong_with_it():
    machine = machine_of(LoneBroker())
    assert room(machine) == ({}, {})
    assert work(machine) == (0, 0, 0)
    assert own_trouble(machine, "", None, is_alone=False) == []
    assert own_trouble(machine, "no load", OSError("full"), is_alone=True) == [
        "no launcher is connected: nothing can be started",
        "no load",
        "the store cannot be written: full",
    ]
