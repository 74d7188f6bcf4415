"""Circuits between two other machines through this one: forwarded unread, and bounded.

See docs/spec/005, section 4. Both ends have authenticated on their links with the relay. They
use TLS, so the relay can neither read the data nor alter it unnoticed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container
from typing import NamedTuple

from iriai.wire.links import Carry, CarryOver, CircuitFrame, Credit, OutOfPlace

WINDOW_BYTES = 256 << 10
"""Unacknowledged bytes in one direction of a circuit. Larger: faster over long lines, more memory
in the relay. With a round trip of 100 ms it gives 2.5 MB a second."""
CIRCUITS_OF_MACHINE_MAX = 64
"""Circuits that one machine may open through this one, each to an outward-only machine."""
CIRCUITS_MAX = 1024
"""In all: 512 MiB with every window full both ways, in practice some MiB."""


class FrameTo(NamedTuple):
    """Send a frame to a machine over the direct link with it; without one it is lost."""

    machine: str
    frame: CircuitFrame


class CircuitKey(NamedTuple):
    """The identity of a circuit, the same on all three machines."""

    opener: str
    other: str
    number: int

    @classmethod
    def of(cls, frame: CircuitFrame) -> CircuitKey:
        """Return the key of the circuit that a frame belongs to."""
        return cls(frame.opener, frame.other, frame.number)

    def far_end(self, machine: str) -> str:
        """Return the end that is not `machine`."""
        return self.other if machine == self.opener else self.opener


class Relay:
    """The circuits that this machine relays."""

    def __init__(self) -> None:
        self.carried_bytes = 0
        """Since the start."""
        self._passing: dict[CircuitKey, Counter[str]] = {}
        """Unacknowledged bytes of each circuit, by the machine that sent them."""
        self._opened: Counter[str] = Counter()

    @property
    def circuits(self) -> int:
        """Return the number of open circuits."""
        return len(self._passing)

    def carries_of(self, machine: str) -> bool:
        """Whether a machine is an end of an open circuit."""
        return any(machine in (key.opener, key.other) for key in self._passing)

    def receive(self, sender: str, frame: CircuitFrame, linked: Container[str]) -> list[FrameTo]:
        """Return the frames that follow from one of `sender`; `linked` are machines with a link.

        Raises:
            OutOfPlace: the sender is neither end of the circuit.
        """
        key = CircuitKey.of(frame)
        if sender not in (key.opener, key.other) or key.opener == key.other:
            raise OutOfPlace(
                f"a circuit of {key.opener} and {key.other} does not belong to {sender}"
            )
        if key not in self._passing:
            if isinstance(frame, CarryOver):
                return []
            refusal = self._refusal(sender, key, frame)
            if refusal:
                return [FrameTo(sender, CarryOver(*key, refusal))]
            self._passing[key] = Counter()
            self._opened[key.opener] += 1
        far_end = key.far_end(sender)
        if broken := self._count(sender, key, frame):
            return self._end(key, (key.opener, key.other), broken)
        if far_end not in linked:
            return self._end(key, (sender,), f"the relay has no link with {far_end}")
        if isinstance(frame, CarryOver):
            self._end(key, (), "")
        return [FrameTo(far_end, frame)]

    def link_over(self, machine: str) -> list[FrameTo]:
        """Close the circuits of a machine whose link is closed; return what the far ends hear."""
        reason = f"the relay's link with {machine} is over"
        over = [key for key in self._passing if machine in (key.opener, key.other)]
        return [each for key in over for each in self._end(key, (key.far_end(machine),), reason)]

    def _refusal(self, sender: str, key: CircuitKey, frame: CircuitFrame) -> str:
        """Return why a frame cannot open a circuit; empty: it can."""
        if sender != key.opener or not isinstance(frame, Carry):
            return "the relay does not know this circuit"
        if len(self._passing) >= CIRCUITS_MAX:
            return f"the relay carries {CIRCUITS_MAX} circuits already"
        if self._opened[sender] >= CIRCUITS_OF_MACHINE_MAX:
            return f"the relay carries {CIRCUITS_OF_MACHINE_MAX} circuits of {sender} already"
        return ""

    def _count(self, sender: str, key: CircuitKey, frame: CircuitFrame) -> str:
        """Count the bytes of a frame; return how it violates the window, empty if it does not."""
        unacknowledged_bytes, far_end = self._passing[key], key.far_end(sender)
        match frame:
            case Carry():
                unacknowledged_bytes[sender] += len(frame.content)
                self.carried_bytes += len(frame.content)
            case Credit():
                unacknowledged_bytes[far_end] -= frame.taken_bytes
        if unacknowledged_bytes[sender] > WINDOW_BYTES:
            return f"{sender} sent more than the {WINDOW_BYTES} bytes that may be outstanding"
        if unacknowledged_bytes[far_end] < 0:
            return f"{sender} gave credit for bytes that were never sent"
        return ""

    def _end(self, key: CircuitKey, told: tuple[str, ...], reason: str) -> list[FrameTo]:
        """Forget a circuit; return what the machines `told` hear of it."""
        del self._passing[key]
        self._opened[key.opener] -= 1
        if not self._opened[key.opener]:
            del self._opened[key.opener]
        return [FrameTo(machine, CarryOver(*key, reason)) for machine in told]
