"""Which addresses a machine tells others."""

from hypothesis import given
from hypothesis import strategies as st

from iriai.model.address import (
    ADDRESSES_MAX,
    Address,
    host_of,
    parse_address,
    published_addresses,
)

ANY, ANY_6 = Address("0.0.0.0", 6174), Address("::", 6174)


def test_its_addresses_come_before_its_name_which_others_may_not_know():
    told = published_addresses(ANY, [], ["10.0.0.1", "192.168.1.2", "fd00::2"], "ume.lab")
    assert told == ("10.0.0.1:6174", "192.168.1.2:6174", "ume.lab:6174")


def test_a_listener_of_the_sixth_version_has_addresses_of_that_version():
    told = published_addresses(ANY_6, [], ["10.0.0.1", "fd00::2"], "ume")
    assert told == ("[fd00::2]:6174", "ume:6174")


def test_one_that_listens_at_one_address_tells_that_one():
    listen = Address("127.0.0.1", 7000)
    assert published_addresses(listen, [], ["10.0.0.1"], "ume") == ("127.0.0.1:7000",)


def test_what_is_configured_comes_first_and_once():
    told = published_addresses(ANY, ["gate.lab:80", "10.0.0.1:6174"], ["10.0.0.1"], "ume")
    assert told == ("gate.lab:80", "10.0.0.1:6174", "ume:6174")


def test_the_host_of_addresses_is_that_of_the_first_of_a_network():
    assert host_of(["unix:/run/x", "[fd00::2]:6174", "ume:1"]) == "fd00::2"
    assert host_of([]) == ""


@given(st.lists(st.ip_addresses(v=4).map(str), max_size=20))
def test_so_many_are_told_and_each_can_be_read_back(interfaces: list[str]):
    told = published_addresses(ANY, [], interfaces, "ume")
    assert 1 <= len(told) <= ADDRESSES_MAX
    assert [str(parse_address(each)) for each in told] == list(told)
