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


def of(name: str, cluster: str, **more) -> Member:
    more = {"addresses": (f"{name}:1",), "cluster_name": cluster} | more
    more = {"state": MemberState.ALIVE} | more
    return Member(name, 1, cluster="lab", **more)


def test_a_machine_is_reached_through_relays_of_its_own_cluster():
    book = AddressBook("own", cluster="east")
    west = of("w0", "west", is_outward_only=True)
    book.update([of("e1", "east"), of("e2", "east"), of("w1", "west"), west])
    assert set(book.relays("own")) == {"e1", "e2"}
    assert book.relays("w0") == ["w1"]


def test_who_is_not_known_may_be_of_another_cluster_if_there_is_one():
    book = AddressBook("own", cluster="east")
    book.update([of("e1", "east")])
    assert not book.may_reach("oni")
    book.update([of("w1", "west")])
    assert book.may_reach("oni")
    assert [book.is_elsewhere(name) for name in ("e1", "w1", "oni")] == [False, True, True]
    book.update([of("w1", "west", state=MemberState.LEFT)])
    assert not book.may_reach("oni")
