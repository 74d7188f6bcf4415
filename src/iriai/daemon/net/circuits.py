"""All circuits of this machine: those that end here, and those that it relays (`Relay`)."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable

from iriai.daemon.net.circuit import WINDOW_BYTES, Circuit, CircuitKey
from iriai.daemon.net.link import MachineLink
from iriai.wire.links import Carry, CarryOver, CircuitFrame, Credit, OutOfPlace

CIRCUITS_OF_MACHINE_MAX = 64
"""Circuits that one machine may open through this one, each to an outward-only machine."""
CIRCUITS_MAX = 1024
"""In all: 512 MiB with every window full both ways, in practice some MiB."""


class Relay:
    """Circuits between two other machines through this one: forwarded unread, and bounded.

    See docs/spec/005, section 4. Both ends have authenticated on their links with the relay. They
    use TLS, so the relay can neither read the data nor alter it unnoticed.
    """

    def __init__(self, send: Callable[[str, CircuitFrame], bool]) -> None:
        """`send` sends a frame over the link with a machine; it returns False if there is none."""
        self.carried_bytes = 0
        """Since the start."""
        self._send = send
        self._passing: dict[CircuitKey, Counter[str]] = {}
        """Unacknowledged bytes of each circuit, by the machine that sent them."""
        self._opened: Counter[str] = Counter()

    @property
    def circuits(self) -> int:
        """Return the number of open circuits."""
        return len(self._passing)

    def receive(self, sender: str, frame: CircuitFrame) -> None:
        """Forward a frame from `sender`.

        Raises:
            OutOfPlace: the sender is neither end of the circuit.
        """
        key = CircuitKey.of(frame)
        if sender not in (key.opener, key.other) or key.opener == key.other:
            raise OutOfPlace(
                f"a circuit of {key.opener} and {key.other} does not belong to {sender}"
            )
        passing = self._passing.get(key)
        if passing is None:
            if isinstance(frame, CarryOver):
                return
            refusal = self._refusal(sender, key, frame)
            if refusal:
                self._send(sender, CarryOver(*key, refusal))
                return
            passing = self._passing[key] = Counter()
            self._opened[key.opener] += 1
        self._pass_on(sender, key, passing, frame)

    def link_over(self, machine: str) -> None:
        """Close the circuits of a machine whose link is closed."""
        for key in [key for key in self._passing if machine in (key.opener, key.other)]:
            self._forget(key)
            reason = f"the relay's link with {machine} is over"
            self._send(key.far_end(machine), CarryOver(*key, reason))

    def _refusal(self, sender: str, key: CircuitKey, frame: CircuitFrame) -> str:
        """Return why a frame cannot open a circuit; empty: it can."""
        if sender != key.opener or not isinstance(frame, Carry):
            return "the relay does not know this circuit"
        if len(self._passing) >= CIRCUITS_MAX:
            return f"the relay carries {CIRCUITS_MAX} circuits already"
        if self._opened[sender] >= CIRCUITS_OF_MACHINE_MAX:
            return f"the relay carries {CIRCUITS_OF_MACHINE_MAX} circuits of {sender} already"
        return ""

    def _pass_on(
        self, sender: str, key: CircuitKey, unacknowledged_bytes: Counter[str], frame: CircuitFrame
    ) -> None:
        far_end = key.far_end(sender)
        match frame:
            case Carry():
                unacknowledged_bytes[sender] += len(frame.content)
                self.carried_bytes += len(frame.content)
            case Credit():
                unacknowledged_bytes[far_end] -= frame.taken_bytes
        if unacknowledged_bytes[sender] > WINDOW_BYTES:
            self._break(
                key, f"{sender} sent more than the {WINDOW_BYTES} bytes that may be outstanding"
            )
        elif unacknowledged_bytes[far_end] < 0:
            self._break(key, f"{sender} gave credit for bytes that were never sent")
        elif isinstance(frame, CarryOver):
            self._forget(key)
            self._send(far_end, frame)
        elif not self._send(far_end, frame):
            self._forget(key)
            self._send(sender, CarryOver(*key, f"the relay has no link with {far_end}"))

    def _break(self, key: CircuitKey, reason: str) -> None:
        self._forget(key)
        for machine in (key.opener, key.other):
            self._send(machine, CarryOver(*key, reason))

    def _forget(self, key: CircuitKey) -> None:
        del self._passing[key]
        self._opened[key.opener] -= 1
        if not self._opened[key.opener]:
            del self._opened[key.opener]


NUMBER_BITS = 62
"""Of a circuit's random number: unique, and not negative in msgpack."""
ENDS_MAX = 600
"""Circuits that end here: as many as links, since each carries one."""


class Circuits:
    """All circuits that end on this machine."""

    def __init__(
        self,
        name: str,
        link_of: Callable[[str], MachineLink | None],
        on_incoming: Callable[[Circuit, str], None],
    ) -> None:
        """`link_of` returns the direct link with a machine.

        `on_incoming` gets each circuit that another machine opened, and its relay.
        """
        self._name = name
        self._link_of = link_of
        self._on_incoming = on_incoming
        self._ends: dict[tuple[str, CircuitKey], Circuit] = {}
        self.relay = Relay(self._send)

    def open(self, relay: str, link: MachineLink, other: str) -> Circuit:
        """Open a circuit to `other` through the machine `relay`."""
        return self._end(relay, CircuitKey(self._name, other, secrets.randbits(NUMBER_BITS)), link)

    def receive(self, link: MachineLink, frame: CircuitFrame) -> None:
        """Handle a frame of a circuit that arrived over `link`.

        Raises:
            OutOfPlace: the sender is neither end of the circuit.
        """
        key = CircuitKey.of(frame)
        if self._name not in (key.opener, key.other):
            self.relay.receive(link.machine, frame)
            return
        circuit = self._ends.get((link.machine, key))
        if circuit is None and self._is_incoming(key, frame):
            circuit = self._end(link.machine, key, link)
            self._on_incoming(circuit, link.machine)
        if circuit is not None:
            circuit.receive(frame)
        elif not isinstance(frame, CarryOver):
            link.send_frame(CarryOver(*key, f"{self._name} does not know this circuit"))

    def link_over(self, machine: str, reason: str) -> None:
        """Close the circuits through a machine whose direct link is closed."""
        for relay, key in list(self._ends):
            if relay == machine:
                self._ends[relay, key].end(f"the link with the relay {machine} is over: {reason}")
        self.relay.link_over(machine)

    def _is_incoming(self, key: CircuitKey, frame: CircuitFrame) -> bool:
        is_first = isinstance(frame, Carry) and key.other == self._name != key.opener
        return is_first and len(self._ends) < ENDS_MAX

    def _end(self, relay: str, key: CircuitKey, link: MachineLink) -> Circuit:
        def forget(key: CircuitKey) -> None:
            self._ends.pop((relay, key), None)

        circuit = self._ends[relay, key] = Circuit(key, link, forget)
        return circuit

    def _send(self, machine: str, frame: CircuitFrame) -> bool:
        link = self._link_of(machine)
        if link is None:
            return False
        link.send_frame(frame)
        return True
