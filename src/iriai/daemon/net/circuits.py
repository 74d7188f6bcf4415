"""All circuits of this machine: those that end here, and those that pass (`daemon.net.relay`)."""

from __future__ import annotations

import secrets
from collections.abc import Callable

from iriai.daemon.net.circuit import Circuit, CircuitKey, RelayLink
from iriai.daemon.net.link import MachineLink
from iriai.daemon.net.relay import Relay
from iriai.wire.links import Carry, CarryOver, CircuitFrame

NUMBER_BITS = 62
"""Of a circuit's number: never the same twice, and no negative number in msgpack."""
ENDS_MAX = 600
"""Circuits that end here: as many as links, which each of them is one of."""


class Circuits:
    """See the module."""

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

    def take(self, link: MachineLink, frame: CircuitFrame) -> None:
        """What came over a link.

        Raises `OutOfPlace` where its sender has nothing to do with the circuit.
        """
        key = CircuitKey.of(frame)
        if self._name not in (key.opener, key.other):
            self.relay.take(link.machine, frame)
            return
        circuit = self._ends.get((link.machine, key))
        if circuit is None and self._is_incoming(key, frame):
            circuit = self._end(link.machine, key, link)
            self._on_incoming(circuit, link.machine)
        if circuit is not None:
            circuit.take(frame)
        elif not isinstance(frame, CarryOver):
            link.say(CarryOver(*key, f"{self._name} does not know this circuit"))

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
        link.say(frame)
        return True
