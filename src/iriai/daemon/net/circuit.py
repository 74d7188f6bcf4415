"""A connection through a relay: one end of a circuit (docs/spec/005, section 4).

It is a `ByteStream`, and knows nothing of what passes: TLS between the two ends is laid over it.
Each end may have so much under way that the other has not taken in yet; the rest waits here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from iriai.daemon.transport.socket_stream import UNSENT_BYTES_MAX, ignore
from iriai.system.internal_errors import FAULTS
from iriai.wire.links import CARRY_BYTES_MAX, Carry, CarryOver, CircuitFrame, Credit

WINDOW_BYTES = 256 << 10
"""Under way in one direction of a circuit. Larger: faster over long lines, and a relay that holds
more; with 100 ms there and back, 2.5 MB a second."""
_CREDIT_BYTES = WINDOW_BYTES // 4
"""Taken in before the other end is told: not a frame back for each frame."""


class CircuitKey(NamedTuple):
    """The name of a circuit, the same everywhere."""

    opener: str
    other: str
    number: int

    @classmethod
    def of(cls, frame: CircuitFrame) -> CircuitKey:
        """Of the circuit that a frame belongs to."""
        return cls(frame.opener, frame.other, frame.number)

    def far_end(self, machine: str) -> str:
        """The machine at the other end, as `machine` sees it."""
        return self.other if machine == self.opener else self.opener


class RelayLink(Protocol):
    """The link with the relay, as a circuit needs it."""

    def send_frame(self, content: CircuitFrame) -> None:
        """Send one frame."""


class Circuit:
    """One end of a circuit: a connection through a relay."""

    def __init__(
        self, key: CircuitKey, link: RelayLink, forget: Callable[[CircuitKey], None]
    ) -> None:
        """`forget` is called when the circuit is over, before whoever listens."""
        self.key = key
        self.unsent_bytes_max = UNSENT_BYTES_MAX
        self._link = link
        self._forget = forget
        self._on_data: Callable[[bytes], None] = ignore
        self._on_close: Callable[[str], None] = ignore
        self._unsent = bytearray()
        self._credit_bytes = WINDOW_BYTES
        self._taken_bytes = 0
        self._is_closed = False

    @property
    def is_closed(self) -> bool:
        """Whether the circuit is over."""
        return self._is_closed

    def listen(self, on_data: Callable[[bytes], None], on_close: Callable[[str], None]) -> None:
        """Whom to tell from now on."""
        self._on_data = on_data
        self._on_close = on_close

    def write(self, data: bytes) -> None:
        """Send `data`, as the other end gives credit."""
        if self._is_closed:
            return
        self._unsent += data
        self._send_some()
        if len(self._unsent) > self.unsent_bytes_max:
            self.close("it does not read the answers")

    def read_out(self) -> None:
        """What has arrived comes with the link to the relay, in the order of that link."""

    def close(self, reason: str) -> None:
        """End the circuit, and say so to the other end."""
        if not self._is_closed:
            self._link.send_frame(CarryOver(*self.key, reason))
            self._end(reason)

    def receive(self, frame: CircuitFrame) -> None:
        """What the relay has brought."""
        match frame:
            case Carry():
                self._taken_bytes += len(frame.content)
                try:
                    self._on_data(frame.content)
                except Exception as error:  # noqa: BLE001 - the relay has no part in it
                    self.close(FAULTS.note("a circuit", error))
                    return
                if self._taken_bytes >= _CREDIT_BYTES and not self._is_closed:
                    self._link.send_frame(Credit(*self.key, self._taken_bytes))
                    self._taken_bytes = 0
            case Credit():
                # Of a peer that gives more than it may the relay cuts the circuit.
                self._credit_bytes = min(WINDOW_BYTES, self._credit_bytes + frame.taken_bytes)
                self._send_some()
            case CarryOver():
                self._end(frame.reason)

    def lost(self, reason: str) -> None:
        """The link with the relay is over, and the circuit with it."""
        self._end(reason)

    def _send_some(self) -> None:
        while self._unsent and self._credit_bytes > 0:
            length = min(CARRY_BYTES_MAX, self._credit_bytes, len(self._unsent))
            content = bytes(self._unsent[:length])
            del self._unsent[:length]
            self._credit_bytes -= length
            self._link.send_frame(Carry(*self.key, content))

    def _end(self, reason: str) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._unsent.clear()
        self._forget(self.key)
        self._on_close(reason)
