"""The circuits that end on this machine, each a connection through a relay (docs/spec/005).

In: bytes to send, frames of links, links that ended. Out: frames for relays, and what the drivers
of the ends have to know. Each end may send a window of bytes that the other has not acknowledged
yet; the rest waits here.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from iriai.links.relay import WINDOW_BYTES, CircuitKey, FrameTo, Relay
from iriai.wire.links import CARRY_BYTES_MAX, Carry, CarryOver, CircuitFrame, Credit

NUMBER_BITS = 62
"""Of a circuit's random number: unique, and not negative in msgpack."""
ENDS_MAX = 600
"""Circuits that end here: as many as links, since each carries one."""
_CREDIT_BYTES = WINDOW_BYTES // 4
"""Received before credit is sent, so that not each frame costs one in return."""


@dataclass(slots=True, eq=False)
class CircuitEnd:
    """One end of a circuit."""

    relay: str
    key: CircuitKey
    unsent: bytearray = field(default_factory=bytearray)
    credit_bytes: int = WINDOW_BYTES
    """Bytes that may be sent now."""
    taken_bytes: int = 0
    """Bytes received, for which no credit was given yet."""


class Received(NamedTuple):
    """`frame` is for the driver of `end`, which may be new: another machine has opened it.

    A `CarryOver` is the last one: the circuit is over, whichever end closed it.
    """

    end: CircuitEnd
    frame: Carry | CarryOver


CircuitOutput = FrameTo | Received


class Circuits:
    """All circuits of this machine: those that end here, and those that it relays."""

    def __init__(self, name: str, rng: Random) -> None:
        self.relay = Relay()
        self._name = name
        self._rng = rng
        self._ends: dict[tuple[str, CircuitKey], CircuitEnd] = {}

    def open(self, relay: str, other: str) -> CircuitEnd:
        """Return a new circuit to `other` through the machine `relay`."""
        return self._add(relay, CircuitKey(self._name, other, self._rng.getrandbits(NUMBER_BITS)))

    def send(self, end: CircuitEnd, data: bytes = b"") -> list[CircuitOutput]:
        """Return frames with as much of the unsent bytes as there is credit for."""
        end.unsent += data
        frames: list[CircuitOutput] = []
        while end.unsent and end.credit_bytes > 0:
            length = min(CARRY_BYTES_MAX, end.credit_bytes, len(end.unsent))
            frames.append(FrameTo(end.relay, Carry(*end.key, bytes(end.unsent[:length]))))
            del end.unsent[:length]
            end.credit_bytes -= length
        return frames

    def close(self, end: CircuitEnd, reason: str) -> list[CircuitOutput]:
        """Close a circuit that ends here, unless it is over already."""
        if self._ends.pop((end.relay, end.key), None) is None:
            return []
        over = CarryOver(*end.key, reason)
        return [FrameTo(end.relay, over), Received(end, over)]

    def receive(
        self, sender: str, frame: CircuitFrame, linked: Container[str]
    ) -> list[CircuitOutput]:
        """Return what follows from a frame of a circuit that arrived over the link with `sender`.

        `linked` are the machines with a direct link.

        Raises:
            OutOfPlace: the sender is neither end of the circuit.
        """
        key = CircuitKey.of(frame)
        if self._name not in (key.opener, key.other):
            return [*self.relay.receive(sender, frame, linked)]
        end = self._ends.get((sender, key))
        if end is None and self._is_incoming(key, frame):
            end = self._add(sender, key)
        if end is None:
            unknown = CarryOver(*key, f"{self._name} does not know this circuit")
            return [] if isinstance(frame, CarryOver) else [FrameTo(sender, unknown)]
        match frame:
            case Credit():  # the relay ends the circuit of a peer that gives too much
                end.credit_bytes = min(WINDOW_BYTES, end.credit_bytes + frame.taken_bytes)
                return self.send(end)
            case CarryOver():
                del self._ends[sender, key]
                return [Received(end, frame)]
        end.taken_bytes += len(frame.content)
        if end.taken_bytes < _CREDIT_BYTES:
            return [Received(end, frame)]
        credit, end.taken_bytes = Credit(*key, end.taken_bytes), 0
        return [Received(end, frame), FrameTo(sender, credit)]

    def are_through(self, machine: str) -> bool:
        """Whether the direct link with a machine carries circuits."""
        return self.relay.carries_of(machine) or any(
            e.relay == machine for e in self._ends.values()
        )

    def link_over(self, machine: str, reason: str) -> list[CircuitOutput]:
        """Return what follows from the end of the direct link with a machine."""
        words = f"the link with the relay {machine} is over: {reason}"
        over = [end for end in self._ends.values() if end.relay == machine]
        for end in over:
            del self._ends[end.relay, end.key]
        ended = [Received(end, CarryOver(*end.key, words)) for end in over]
        return [*ended, *self.relay.link_over(machine)]

    def _is_incoming(self, key: CircuitKey, frame: CircuitFrame) -> bool:
        is_first = isinstance(frame, Carry) and key.other == self._name != key.opener
        return is_first and len(self._ends) < ENDS_MAX

    def _add(self, relay: str, key: CircuitKey) -> CircuitEnd:
        end = self._ends[relay, key] = CircuitEnd(relay, key)
        return end
