"""All circuits of this machine: those that end here, and those that it relays (`Relay`)."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from iriai.daemon.net.circuit import WINDOW_BYTES, Circuit, CircuitKey, RelayLink
from iriai.daemon.net.link import MachineLink
from iriai.wire.links import Carry, CarryOver, CircuitFrame, Credit, OutOfPlace

CIRCUITS_OF_MACHINE_MAX = 64
"""That one machine may open through this one: it has as many to talk to that only dial outwards."""
CIRCUITS_MAX = 1024
"""In all: with every window full both ways 512 MiB, in practice some MiB."""


@dataclass(slots=True)
class _Passing:
    """A circuit through this machine: what is under way, by the machine that sent it."""

    under_way_bytes: Counter[str] = field(default_factory=Counter)


class Relay:
    """Circuits between two other machines through this one: carried unread, and bounded.

    See docs/spec/005, section 4. Who the two ends are is known from the links that proved it; what
    they say to each other is TLS, which a relay can neither read nor alter unnoticed.
    """

    def __init__(self, say: Callable[[str, CircuitFrame], bool]) -> None:
        """`say` sends a frame over the link with a machine; False where there is none."""
        self.carried_bytes = 0
        """Since the start, for people."""
        self._say = say
        self._passing: dict[CircuitKey, _Passing] = {}
        self._opened: Counter[str] = Counter()

    @property
    def circuits(self) -> int:
        """How many pass now."""
        return len(self._passing)

    def receive(self, sender: str, frame: CircuitFrame) -> None:
        """A frame for another machine came from `sender`.

        Raises `OutOfPlace` where the sender is neither end of the circuit: it does us harm.
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
            refusal = self._why_not(sender, key, frame)
            if refusal:
                self._say(sender, CarryOver(*key, refusal))
                return
            passing = self._passing[key] = _Passing()
            self._opened[key.opener] += 1
        self._pass_on(sender, key, passing, frame)

    def link_over(self, machine: str) -> None:
        """Nothing can be carried to or from a machine any more."""
        for key in [key for key in self._passing if machine in (key.opener, key.other)]:
            self._forget(key)
            reason = f"the relay's link with {machine} is over"
            self._say(key.far_end(machine), CarryOver(*key, reason))

    def _why_not(self, sender: str, key: CircuitKey, frame: CircuitFrame) -> str:
        """Why a circuit that is not known cannot begin; empty where it can."""
        if sender != key.opener or not isinstance(frame, Carry):
            return "the relay does not know this circuit"
        if len(self._passing) >= CIRCUITS_MAX:
            return f"the relay carries {CIRCUITS_MAX} circuits already"
        if self._opened[sender] >= CIRCUITS_OF_MACHINE_MAX:
            return f"the relay carries {CIRCUITS_OF_MACHINE_MAX} circuits of {sender} already"
        return ""

    def _pass_on(
        self, sender: str, key: CircuitKey, passing: _Passing, frame: CircuitFrame
    ) -> None:
        far_end = key.far_end(sender)
        match frame:
            case Carry():
                passing.under_way_bytes[sender] += len(frame.content)
                self.carried_bytes += len(frame.content)
            case Credit():
                passing.under_way_bytes[far_end] -= frame.taken_bytes
        if passing.under_way_bytes[sender] > WINDOW_BYTES:
            self._break(
                key, f"{sender} sent more than the {WINDOW_BYTES} bytes that may be outstanding"
            )
        elif passing.under_way_bytes[far_end] < 0:
            self._break(key, f"{sender} gave credit for bytes that were never sent")
        elif isinstance(frame, CarryOver):
            self._forget(key)
            self._say(far_end, frame)
        elif not self._say(far_end, frame):
            self._forget(key)
            self._say(sender, CarryOver(*key, f"the relay has no link with {far_end}"))

    def _break(self, key: CircuitKey, reason: str) -> None:
        self._forget(key)
        for machine in (key.opener, key.other):
            self._say(machine, CarryOver(*key, reason))

    def _forget(self, key: CircuitKey) -> None:
        del self._passing[key]
        self._opened[key.opener] -= 1
        if not self._opened[key.opener]:
            del self._opened[key.opener]


NUMBER_BITS = 62
"""Of a circuit's number: never the same twice, and no negative number in msgpack."""
ENDS_MAX = 600
"""Circuits that end here: as many as links, which each of them is one of."""


class Circuits:
    """All circuits that end on this machine."""

    def __init__(
        self,
        name: str,
        link_of: Callable[[str], MachineLink | None],
        on_incoming: Callable[[Circuit, str], None],
    ) -> None:
        """`link_of` gives the link straight to a machine.

        `on_incoming` is given a circuit that was opened to us, and the relay that it came through.
        """
        self._name = name
        self._link_of = link_of
        self._on_incoming = on_incoming
        self._ends: dict[tuple[str, CircuitKey], Circuit] = {}
        self.relay = Relay(self._say)

    def open(self, relay: str, link: RelayLink, other: str) -> Circuit:
        """A new circuit to `other` through the machine `relay`."""
        return self._end(relay, CircuitKey(self._name, other, secrets.randbits(NUMBER_BITS)), link)

    def receive(self, link: MachineLink, frame: CircuitFrame) -> None:
        """What came over a link.

        Raises `OutOfPlace` where its sender has nothing to do with the circuit.
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
        """The link straight to a machine is over, and what went through it with it."""
        for relay, key in list(self._ends):
            if relay == machine:
                self._ends[relay, key].lost(f"the link with the relay {machine} is over: {reason}")
        self.relay.link_over(machine)

    def _is_incoming(self, key: CircuitKey, frame: CircuitFrame) -> bool:
        is_first = isinstance(frame, Carry) and key.other == self._name != key.opener
        return is_first and len(self._ends) < ENDS_MAX

    def _end(self, relay: str, key: CircuitKey, link: RelayLink) -> Circuit:
        def forget(key: CircuitKey) -> None:
            self._ends.pop((relay, key), None)

        circuit = self._ends[relay, key] = Circuit(key, link, forget)
        return circuit

    def _say(self, machine: str, frame: CircuitFrame) -> bool:
        link = self._link_of(machine)
        if link is None:
            return False
        link.send_frame(frame)
        return True
