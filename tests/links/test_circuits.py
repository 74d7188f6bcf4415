"""Two ends of a circuit and the relay between them."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from iriai.links.circuits import CircuitEnd, CircuitOutput, Circuits, Received
from iriai.links.relay import WINDOW_BYTES
from iriai.wire.links import Carry, CarryOver, Credit, OutOfPlace


class Three:
    """ann and bob with the relay kiku between them; frames wait until `step` delivers one."""

    def __init__(self) -> None:
        self.circuits = {name: Circuits(name, Random(name)) for name in ("ann", "kiku", "bob")}
        self.waiting: list[tuple[str, str, object]] = []
        self.received: dict[str, bytes] = {"ann": b"", "bob": b""}
        self.ends: dict[str, CircuitEnd] = {"ann": self.circuits["ann"].open("kiku", "bob")}
        self.over: dict[str, str] = {}
        self.windows: list[int] = []

    def perform(self, machine: str, outputs: list[CircuitOutput]) -> None:
        for each in outputs:
            if not isinstance(each, Received):
                receiver, frame = each
                self.waiting.append((machine, receiver, frame))
            elif isinstance(each.frame, Carry):
                assert self.ends.setdefault(machine, each.end) is each.end
                self.received[machine] += each.frame.content
            else:
                assert machine not in self.over
                self.over[machine] = each.frame.reason

    def write(self, machine: str, data: bytes) -> None:
        self.perform(machine, self.circuits[machine].send(self.ends[machine], data))

    def step(self) -> None:
        sender, receiver, frame = self.waiting.pop(0)
        outputs = self.circuits[receiver].receive(
            sender, frame, {"ann", "bob", "kiku"} - {receiver}
        )
        self.perform(receiver, outputs)

    def settle(self) -> None:
        while self.waiting:
            self.step()


@settings(deadline=None)
@given(
    there=st.lists(st.integers(1, 3 * WINDOW_BYTES), min_size=1, max_size=4),
    back=st.lists(st.integers(1, 2 * WINDOW_BYTES), max_size=2),
    steps=st.lists(st.integers(0, 9), max_size=6),
)
def test_all_bytes_arrive_in_order_and_the_relay_never_ends_an_honest_circuit(there, back, steps):
    three, sent = Three(), {"ann": b"", "bob": b""}
    writes = [("ann", size) for size in there] + [("bob", size) for size in back]
    for number, (machine, size) in enumerate(writes):
        if machine not in three.ends:
            three.settle()
        data = Random(number).getrandbits(8 * size).to_bytes(size, "big")
        sent[machine] += data
        three.write(machine, data)
        for _ in range(steps[number % len(steps)] if steps else 0):
            if three.waiting:
                three.step()
    three.settle()
    assert three.received == {"bob": sent["ann"], "ann": sent["bob"]}
    assert three.over == {}


def test_each_end_hears_once_that_the_circuit_is_over():
    three = Three()
    three.write("ann", b"x")
    three.settle()
    three.perform("bob", three.circuits["bob"].close(three.ends["bob"], "enough"))
    three.settle()
    assert three.over == {"ann": "enough", "bob": "enough"}
    assert three.circuits["kiku"].relay.circuits == 0
    assert three.circuits["bob"].close(three.ends["bob"], "again") == []


def test_a_relay_whose_link_ends_takes_its_circuits_along():
    three = Three()
    three.write("ann", b"x")
    three.settle()
    three.perform("kiku", three.circuits["kiku"].link_over("bob", "it broke"))
    three.settle()
    assert three.over == {"ann": "the relay's link with bob is over"}
    three.perform("bob", three.circuits["bob"].link_over("kiku", "it broke"))
    assert three.over["bob"] == "the link with the relay kiku is over: it broke"


def test_a_frame_of_an_unknown_circuit_is_answered_once():
    bob = Circuits("bob", Random(1))
    [(machine, over)] = bob.receive("kiku", Credit("ann", "bob", 7, 1), ())
    assert machine == "kiku"
    assert isinstance(over, CarryOver)
    assert bob.receive("kiku", over, ()) == []


NAMES = st.sampled_from(["ann", "bob", "kiku", "eve"])
NUMBERS = st.integers(0, 1)
ANY_FRAME = st.one_of(
    st.builds(Carry, NAMES, NAMES, NUMBERS, st.binary(max_size=9)),
    st.builds(Credit, NAMES, NAMES, NUMBERS, st.integers(0, 2 * WINDOW_BYTES)),
    st.builds(CarryOver, NAMES, NAMES, NUMBERS, st.just("over")),
)


@given(steps=st.lists(st.tuples(st.sampled_from(["ann", "kiku", "eve"]), ANY_FRAME)))
def test_whatever_others_send_a_circuit_stays_within_its_window_and_belongs_to_its_relay(steps):
    bob = Circuits("bob", Random(1))
    ends: list[CircuitEnd] = []
    for sender, frame in steps:
        try:
            outputs = bob.receive(sender, frame, {"ann", "kiku", "eve"})
        except OutOfPlace:
            continue
        for each in outputs:
            if isinstance(each, Received):
                assert each.end.relay == sender
                assert each.end.key.other == "bob"
                ends.append(each.end)
            else:
                assert each.machine == sender or "bob" not in (frame.opener, frame.other)
    for end in ends:
        sent = bob.send(end, bytes(3 * WINDOW_BYTES))
        assert sum(len(each.frame.content) for each in sent) <= WINDOW_BYTES
