"""A relay carries frames between the two ends of a circuit, bounded, and to nobody else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iriai.links.relay import CIRCUITS_OF_MACHINE_MAX, WINDOW_BYTES, Relay
from iriai.wire.links import Carry, CarryOver, CircuitFrame, Credit, OutOfPlace


class Carried:
    """A relay, and what it said to whom."""

    def __init__(self, *linked: str) -> None:
        self.said: list[tuple[str, object]] = []
        self.linked = set(linked)
        self.relay = Relay()

    def receive(self, sender: str, frame: CircuitFrame) -> None:
        self.said += self.relay.receive(sender, frame, self.linked)


def test_a_relay_carries_between_the_two_ends_alone():
    carried = Carried("ann", "bob", "eve")
    carried.receive("ann", Carry("ann", "bob", 7, b"x"))
    assert carried.said == [("bob", Carry("ann", "bob", 7, b"x"))]
    with pytest.raises(ValueError, match="does not belong to eve"):
        carried.receive("eve", Carry("ann", "bob", 7, b"mine"))
    assert len(carried.said) == 1


def test_a_relay_holds_no_more_than_a_window():
    carried = Carried("ann", "bob")
    half = bytes(WINDOW_BYTES // 2)
    for _ in range(2):
        carried.receive("ann", Carry("ann", "bob", 1, half))
    carried.receive("bob", Credit("ann", "bob", 1, len(half)))
    carried.receive("ann", Carry("ann", "bob", 1, half))
    assert carried.relay.circuits == 1
    carried.receive("ann", Carry("ann", "bob", 1, b"x"))
    assert carried.relay.circuits == 0
    over = [(name, each.reason) for name, each in carried.said if isinstance(each, CarryOver)]
    assert [name for name, _ in over] == ["ann", "bob"]
    assert "more than" in over[0][1]


def test_credit_for_what_never_came_costs_the_circuit():
    carried = Carried("ann", "bob")
    carried.receive("ann", Carry("ann", "bob", 1, b"x"))
    carried.receive("bob", Credit("ann", "bob", 1, 1000))
    assert carried.relay.circuits == 0


def test_a_machine_opens_only_so_many_circuits():
    carried = Carried("ann", "bob", "cho")
    for number in range(CIRCUITS_OF_MACHINE_MAX + 5):
        carried.receive("ann", Carry("ann", "bob", number, b"x"))
    carried.receive("cho", Carry("cho", "bob", 1, b"x"))
    assert carried.relay.circuits == CIRCUITS_OF_MACHINE_MAX + 1
    carried.relay.link_over("ann")
    assert carried.relay.circuits == 1


NAMES = st.sampled_from(["ann", "bob", "cho", "dan"])
FRAMES = st.one_of(
    st.builds(Carry, NAMES, NAMES, st.integers(0, 2), st.binary(max_size=9)),
    st.builds(Credit, NAMES, NAMES, st.integers(0, 2), st.integers(0, 9)),
    st.builds(CarryOver, NAMES, NAMES, st.integers(0, 2), st.just("over")),
)


@given(steps=st.lists(st.tuples(NAMES, FRAMES)), linked=st.sets(NAMES))
def test_no_frame_comes_back_to_its_sender_and_each_goes_to_an_end_with_a_link(steps, linked):
    carried = Carried(*linked)
    for sender, sent in steps:
        carried.said.clear()
        try:
            carried.receive(sender, sent)
        except OutOfPlace:
            assert sender not in (sent.opener, sent.other) or sent.opener == sent.other
        for machine, frame in carried.said:
            assert machine in (sent.opener, sent.other)
            if frame is sent:
                assert machine != sender
                assert machine in linked
            else:
                assert isinstance(frame, CarryOver)
    for machine in ("ann", "bob"):
        carried.relay.link_over(machine)
    assert carried.relay.circuits <= 6  # of cho and dan
