"""Where machines are dialled: at all their addresses, that which worked last first."""

from iriai.links.address_book import AddressBook
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


def test_the_order_outlasts_a_restart_and_what_the_machine_tells_then():
    book = AddressBook("own")
    book.begin([ume(B, A)])
    assert book.addresses("ume") == (B, A)
    book.update([ume(A, B, C)])
    assert book.addresses("ume") == (B, A, C)


def test_of_a_machine_that_left_nothing_is_remembered():
    book = AddressBook("own")
    book.update([ume(A, B)])
    book.reached("ume", B)
    book.update([ume(A, B, state=MemberState.LEFT)])
    book.update([ume(A, B)])
    assert book.addresses("ume") == (A, B)
