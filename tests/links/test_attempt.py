"""What an attempt to reach a machine comes to, where one way after the other is tried."""

from __future__ import annotations

from iriai.links.attempt import UNPROVED, UNREACHED, Attempt, NotReached

A, B = "10.0.0.1:6174", "10.0.0.2:6174"


def outcome(*missed: NotReached, is_direct: bool = True) -> NotReached:
    """What comes of an attempt whose ways end so."""
    attempt = Attempt([f"way{number}" for number in range(len(missed))], is_direct)
    for each in missed:
        assert attempt.next_way()
        attempt.fail(each)
    assert not attempt.next_way()
    return attempt.outcome


def test_somebody_else_at_an_address_is_no_reason_to_give_up():
    attempt = Attempt([A, B], is_direct=True)
    assert attempt.next_way()
    attempt.fail(NotReached("other-machine", f"take answers at {A}"))
    assert attempt.next_way()
    assert attempt.way == B


def test_what_is_wrong_at_each_address_is_told_once():
    other, none = NotReached("other-machine", "take answers"), NotReached(UNREACHED, "no answer")
    missed = outcome(other, none, none)
    assert (missed.code, missed.message) == (UNREACHED, "take answers; no answer")


def test_who_is_refused_by_the_machine_itself_tries_no_other_address():
    attempt = Attempt([A, B], is_direct=True)
    assert attempt.next_way()
    attempt.fail(NotReached("too-many", "ume has 600 links already", is_refusal=True))
    assert not attempt.next_way()
    assert "600 links" in attempt.outcome.message


def test_a_relay_that_does_not_reach_it_is_no_fault_of_the_machine():
    missed = outcome(NotReached(UNPROVED, "it has no link"), is_direct=False)
    assert (missed.code, missed.message) == (UNREACHED, "through way0: it has no link")


def test_a_machine_without_addresses_is_not_reached():
    assert outcome().message == "no address of it is known"
