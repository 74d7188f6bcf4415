"""Where machines are dialled: at all their addresses, that which worked last first."""

import asyncio

import pytest

from iriai.daemon.net.address_book import AddressBook
from iriai.daemon.net.dialer import UNREACHED, NotReached, first_reached
from iriai.protocol.messages.members import Member, MemberState

A, B, C = "10.0.0.1:6174", "10.0.0.2:6174", "ume:6174"


def ume(*addresses: str, state: MemberState = MemberState.ALIVE) -> Member:
    return Member("ume", 1, state, "lab", addresses)


def test_the_address_that_worked_is_tried_first_as_long_as_it_is_told():
    book = AddressBook("own")
    book.update([ume(A, B, C)])
    book.reached("ume", B)
    assert book.addresses("ume") == (B, A, C)
    book.update([ume(C, A)])
    assert book.addresses("ume") == (C, A)
    book.update([ume(A, B)])
    assert book.addresses("ume") == (B, A)


def test_of_a_machine_that_left_nothing_is_remembered():
    book = AddressBook("own")
    book.update([ume(A, B)])
    book.reached("ume", B)
    book.update([ume(A, B, state=MemberState.LEFT)])
    book.update([ume(A, B)])
    assert book.addresses("ume") == (A, B)


def reached(*ways: NotReached | str) -> object:
    """What dialling comes to where the ways end so, and how many were tried."""
    tried = []

    def way(ends: NotReached | str):
        async def go():
            tried.append(ends)
            if isinstance(ends, NotReached):
                raise ends
            return ends

        return go

    async def go() -> object:
        return await first_reached([way(ends) for ends in ways]), len(tried)

    return asyncio.run(go())


def test_somebody_else_at_an_address_is_no_reason_to_give_up():
    other = NotReached("other-machine", f"take answers at {A}")
    assert reached(other, NotReached(UNREACHED, f"no answer from {B}"), C) == (C, 3)


def test_what_is_wrong_at_each_address_is_told():
    with pytest.raises(NotReached, match="take answers; no answer") as caught:
        reached(NotReached("other-machine", "take answers"), NotReached(UNREACHED, "no answer"))
    assert caught.value.code == UNREACHED


def test_who_is_refused_by_the_machine_itself_tries_no_other_address():
    refusal = NotReached("too-many", "ume has 600 links already", is_refusal=True)
    with pytest.raises(NotReached, match="600 links"):
        reached(refusal, C)
