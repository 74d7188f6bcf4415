"""A connection through a relay: one end of a circuit (docs/spec/005, section 4).

A `ByteStream` that carries TLS between the two ends. Each end may send a window of bytes that the
other has not acknowledged yet; the rest waits here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from iriai.daemon.net.link import MachineLink
from iriai.daemon.transport.socket_stream import UNSENT_BYTES_MAX, ignore
from iriai.system.internal_errors import FAULTS
from iriai.wire.links import CARRY_BYTES_MAX, Carry, CarryOver, CircuitFrame, Credit

WINDOW_BYTES = 256 << 10
"""Unacknowledged bytes in one direction of a circuit. Larger: faster over long lines, more memory
in the relay. With a round trip of 100 ms it gives 2.5 MB a second."""
_CREDIT_BYTES = WINDOW_BYTES // 4
"""Received before credit is sent, so that not each frame costs one in return."""


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


class Circuit:
    """One end of a circuit: a connection through a relay."""

    def __init__(
        self, key: CircuitKey, link: MachineLink, forget: Callable[[CircuitKey], None]
    ) -> None:
        """`forget` is called when the circuit is closed, before `on_close`."""
        self.key = key
        self.unsent_bytes_max = UNSENT_BYTES_MAX
        self._link = link
        self._forget = forget
        self._on_data: Callable[[bytes], None] = ignore
        self._on_close: Callable[[str], None] = ignore
        self._unsent = bytearray()
        self._credit_bytes = WINDOW_BYTES
        self._taken_bytes = 0
        self.is_closed = False

    def listen(self, on_data: Callable[[bytes], None], on_close: Callable[[str], None]) -> None:
        """Replace both listeners."""
        self._on_data = on_data
        self._on_close = on_close

    def write(self, data: bytes) -> None:
        """Send `data` as far as there is credit, the rest later."""
        if self.is_closed:
            return
        self._unsent += data
        self._send_some()
        if len(self._unsent) > self.unsent_bytes_max:
            self.close("it does not read the answers")

    def read_out(self) -> None:
        """Do nothing: data arrives with the frames of the link to the relay."""

    def close(self, reason: str) -> None:
        """End the circuit, and notify the other end."""
        if not self.is_closed:
            self._link.send_frame(CarryOver(*self.key, reason))
            self.end(reason)

    def receive(self, frame: CircuitFrame) -> None:
        """Handle a frame from the other end."""
        match frame:
            case Carry():
                self._taken_bytes += len(frame.content)
                try:
                    self._on_data(frame.content)
                except Exception as error:  # noqa: BLE001 - the relay has no part in it
                    self.close(FAULTS.note("a circuit", error))
                    return
                if self._taken_bytes >= _CREDIT_BYTES and not self.is_closed:
                    self._link.send_frame(Credit(*self.key, self._taken_bytes))
                    self._taken_bytes = 0
            case Credit():
                # The relay cuts the circuit of a peer that gives too much.
                self._credit_bytes = min(WINDOW_BYTES, self._credit_bytes + frame.taken_bytes)
                self._send_some()
            case CarryOver():
                self.end(frame.reason)

    def _send_some(self) -> None:
        while self._unsent and self._credit_bytes > 0:
            length = min(CARRY_BYTES_MAX, self._credit_bytes, len(self._unsent))
            content = bytes(self._unsent[:length])
            del self._unsent[:length]
            self._credit_bytes -= length
            self._link.send_frame(Carry(*self.key, content))

    def end(self, reason: str) -> None:
        """End the circuit without a word to the other end, which knows or cannot be reached."""
        if self.is_closed:
            return
        self.is_closed = True
        self._unsent.clear()
        self._forget(self.key)
        self._on_close(reason)
