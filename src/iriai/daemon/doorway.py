"""Connections that come in over the network, until they have proved what they are.

Whoever is there may connect; so all that can be held before a proof is bounded here and in
`daemon.tls_stream` (docs/spec/005, section 3).
"""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import Callable

from iriai.daemon.clock import now as read_clocks
from iriai.daemon.greeter import Answered, Greeted
from iriai.daemon.offences import Offences
from iriai.daemon.passport import Passport
from iriai.daemon.pipe import SocketPipe
from iriai.daemon.tls_stream import TlsStream
from iriai.wire.greetings import YIELD, Declined

UNPROVED_MAX = 64
"""Connections whose peer has not proved who it is. A laboratory that starts again at once brings as
many, and the rest a moment later."""
UNPROVED_OF_ADDRESS_MAX = 8
"""Of one address: several machines may stand behind one router."""


class Doorway:
    """See the module."""

    def __init__(
        self,
        passport: Passport,
        offences: Offences,
        decide: Callable[[str, bool], Declined | None],
        on_greeted: Callable[[Greeted], None],
        on_failed: Callable[[str], None],
    ) -> None:
        """`decide` and `on_greeted` are those of `greeter.Answered`.

        `on_failed` hears which machine did not come to a link.
        """
        self.on_anonymous: Callable[[TlsStream, str], None] | None = None
        """Takes connections of peers without a certificate, who may ask to join or show a token,
        and their address; None: they are turned away. `trust` lets one stay."""
        self._on_failed = on_failed
        self._passport = passport
        self._offences = offences
        self._decide = decide
        self._on_greeted = on_greeted
        self._unproved: Counter[str] = Counter()
        self._greeting: dict[Answered, str] = {}
        self._loop = asyncio.get_running_loop()
        self._listeners: list[socket.socket] = []

    def open(self, listeners: list[socket.socket]) -> None:
        """Take connections from here on."""
        self._listeners = listeners
        for listener in listeners:
            listener.setblocking(False)
            self._loop.add_reader(listener.fileno(), self._accept, listener)

    def close(self) -> None:
        """Take no more, and end those that have proved nothing."""
        for listener in self._listeners:
            self._loop.remove_reader(listener.fileno())
            listener.close()
        self._listeners = []
        for answered in list(self._greeting):
            answered.close("the daemon ends")

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, peer = listener.accept()
            except OSError:
                return
            address = str(peer[0])
            why = self._why_not(address)
            if why:
                connection.close()
                self._offences.note(address, "too-many", why, _steady_s())
            else:
                self._answer(connection, address)

    def _why_not(self, address: str) -> str:
        """Why no more connections are taken now; empty: they are."""
        if self._unproved.total() >= UNPROVED_MAX:
            return f"{UNPROVED_MAX} connections have not proved who they are"
        if self._unproved[address] >= UNPROVED_OF_ADDRESS_MAX:
            return f"{UNPROVED_OF_ADDRESS_MAX} of its connections have not proved who they are"
        return ""

    def _answer(self, connection: socket.socket, address: str) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._unproved[address] += 1

        def over() -> None:
            if self._greeting.pop(answered, None) is not None:
                self._unproved[address] -= 1
                if not self._unproved[address]:
                    del self._unproved[address]

        def greeted(result: Greeted) -> None:
            over()
            self._on_greeted(result)

        def anonymous(stream: TlsStream) -> None:
            over()
            if self.on_anonymous is not None:
                self.on_anonymous(stream, address)
            else:
                failed("", "no-certificate", "it has shown no certificate")
                stream.close("it has shown no certificate")

        def failed(machine: str, code: str, message: str) -> None:
            over()
            self._on_failed(machine)
            if code != YIELD:
                self._offences.note(machine or address, code, message, _steady_s())

        answered = Answered(
            SocketPipe(connection, _unheard, _unheard),
            self._passport,
            is_direct=True,
            decide=self._decide,
            on_anonymous=anonymous,
            on_done=greeted,
            on_failed=failed,
        )
        self._greeting[answered] = address


def _unheard(_: object) -> None:
    """Before somebody listens."""


def _steady_s() -> float:
    return read_clocks("doorway").steady_s
