"""One client's submissions keep their order, and what waits has an end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iriai.model.problem import Refused
from iriai.policy.service.request_order import (
    ALL_LINES_BYTES_MAX,
    LINE_BYTES_MAX,
    RequestOrder,
)


@pytest.fixture
def order():
    return RequestOrder()


def test_the_second_of_a_client_goes_on_when_the_first_has_left(order):
    first, second, other = order.enter("ann", 1), order.enter("ann", 1), order.enter("bob", 1)
    assert (first.is_first, second.is_first, other.is_first) == (True, False, True)
    assert order.leave(first) is second
    assert order.leave(second) is None
    assert order.enter("ann", 1).is_first


@given(st.lists(st.tuples(st.booleans(), st.sampled_from("ab"), st.integers(0, 9))))
def test_each_client_goes_on_in_the_order_of_arrival(events):
    order = RequestOrder()
    waiting = {"a": [], "b": []}
    going = {"a": None, "b": None}
    for is_arrival, client, size_bytes in events:
        if is_arrival:
            place = order.enter(client, size_bytes)
            assert place.is_first == (going[client] is None)
            if place.is_first:
                going[client] = place
            else:
                waiting[client].append(place)
        elif going[client] is not None:
            following = order.leave(going[client])
            assert following is (waiting[client].pop(0) if waiting[client] else None)
            going[client] = following


def test_what_one_client_has_in_line_has_an_end(order):
    first, second = (order.enter("ann", LINE_BYTES_MAX // 2) for _ in range(2))
    with pytest.raises(Refused, match="2 submissions and alterations on this connection") as told:
        order.enter("ann", 1)
    assert told.value.code == "too-many-submissions"
    order.enter("bob", 1)  # who has a line of his own
    order.leave(first)
    assert not order.enter("ann", 1).is_first
    assert order.leave(second) is not None


def test_what_all_clients_have_in_line_has_an_end(order):
    size_bytes = LINE_BYTES_MAX - 1
    lines = ALL_LINES_BYTES_MAX // size_bytes
    places = [order.enter(number, size_bytes) for number in range(lines)]
    with pytest.raises(Refused, match=f"{lines} submissions and alterations of all clients"):
        order.enter("ann", 1)
    for place in places:
        order.leave(place)
    assert order.enter("ann", 1).is_first
