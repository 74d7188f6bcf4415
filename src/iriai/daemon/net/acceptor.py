"""Incoming network connections until they have authenticated.

Anybody can connect, so everything held before authentication is bounded here and in
`daemon.transport.tls_stream` (docs/spec/005, section 3).
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable
from typing import NamedTuple

from iriai.daemon.net.credentials import Credentials
from iriai.daemon.net.handshake import Handshake
from iriai.daemon.transport.socket_stream import ByteStream, SocketStream, ignore
from iriai.daemon.transport.tls_stream import TlsStream
from iriai.links.address_book import AddressBook
from iriai.links.admission import PLACE_NEEDED, ConnectionPlace, UnauthenticatedAdmission
from iriai.links.circuits import CircuitEnd
from iriai.links.core import LinkCore
from iriai.links.greeting import ServerGreeting
from iriai.system.clock import now as read_clocks
from iriai.system.internal_errors import guarded
from iriai.wire.greetings import Rejected

ACCEPTED_MAX = 64
"""Connections accepted at a time, before the open ones are served again."""
NO_DESCRIPTORS = frozenset({errno.EMFILE, errno.ENFILE})
THIS_HOST = "this host"
"""The address of a peer that is connected over a Unix socket."""
REST_S = 1.0
"""How long no connections are accepted when no descriptor is left."""


class AnonymousArrived(NamedTuple):
    """A peer without a certificate is connected, by TLS: it may ask to join, or show a token."""

    stream: TlsStream
    """`TlsStream.trust` lets it stay."""
    address: str
    """A text for people."""


class Acceptor:
    """Accepts network connections, and holds them until they have authenticated."""

    def __init__(
        self,
        credentials: Credentials,
        book: AddressBook,
        core: LinkCore,
        on_greeted: Callable[[Handshake], None],
        on_failed: Callable[[str, str, Rejected], None],
        on_anonymous: Callable[[AnonymousArrived], None] | None,
    ) -> None:
        """`on_greeted` gets each connection that is a link from now on.

        `on_failed` gets who is refused (an address, or a word for it), the machine (empty: not
        authenticated) and why. Without `on_anonymous` a peer that shows no certificate is refused.
        """
        self.admission: UnauthenticatedAdmission[Handshake] = UnauthenticatedAdmission(
            book, lambda each: each.stream.has_spoken, _steady_s()
        )
        self._credentials = credentials
        self._core = core
        self._on_greeted = on_greeted
        self._on_failed = on_failed
        self._on_anonymous = on_anonymous
        self._loop = asyncio.get_running_loop()
        self._listeners: list[socket.socket] = []

    def open(self, listeners: list[socket.socket]) -> None:
        """Accept connections from now on."""
        self._listeners = listeners
        for listener in listeners:
            listener.setblocking(False)
            self._loop.add_reader(listener.fileno(), guarded("an arrival", self._accept), listener)

    def close(self) -> None:
        """Stop accepting, and close the connections that have not authenticated."""
        for listener in self._listeners:
            self._loop.remove_reader(listener.fileno())
            listener.close()
        self._listeners = []
        for handshake in self.admission:
            handshake.stream.close("the daemon ends")

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(ACCEPTED_MAX):
            try:
                connection, peer = listener.accept()
            except OSError as error:
                if error.errno in NO_DESCRIPTORS:
                    self._pause(listener)
                return
            self._answer(connection, str(peer[0]) if peer else THIS_HOST)

    def _pause(self, listener: socket.socket) -> None:
        """Accept nothing for a while: the event loop would report the waiting ones all the time."""
        words = "the limit of open descriptors is reached: no connections are accepted"
        self._on_failed("an unauthenticated peer", "", Rejected("no-descriptors", words))
        self._loop.remove_reader(listener.fileno())

        def go_on() -> None:
            if listener in self._listeners:
                self._loop.add_reader(
                    listener.fileno(), guarded("an arrival", self._accept), listener
                )

        self._loop.call_later(REST_S, go_on)

    def _answer(self, connection: socket.socket, address: str) -> None:
        place = self.admission.connection(address, _steady_s())
        if place.why_not:
            connection.close()
            self._on_failed(address, "", Rejected("too-many", place.why_not))
            return
        if connection.family != socket.AF_UNIX:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        take = self._on_anonymous
        self._shake_hands(
            SocketStream(connection, ignore, ignore),
            place,
            address,
            on_anonymous=take and (lambda stream: take(AnonymousArrived(stream, address))),
        )

    def answer_circuit(self, circuit: ByteStream, end: CircuitEnd) -> None:
        """Answer an incoming circuit; the relay may have made up the name of its opener."""
        place = self.admission.circuit(end.relay, _steady_s())
        if place.why_not:
            words = f"through it: {place.why_not}"
            self._on_failed(end.relay, "", Rejected("too-many-circuits", words))
            circuit.close(place.why_not)
            return
        who = f"an unauthenticated peer that calls itself {end.key.opener}"
        self._shake_hands(circuit, place, who)

    def _shake_hands(
        self,
        pipe: ByteStream,
        place: ConnectionPlace[Handshake],
        who: str,
        on_anonymous: Callable[[TlsStream], None] | None = None,
    ) -> None:
        is_direct = isinstance(pipe, SocketStream)
        for each in place.displaced:
            each.stream.close(PLACE_NEEDED)

        def failed(handshake: Handshake, why: Rejected) -> None:
            self._on_failed(who, handshake.greeting.machine, why)

        def greeted(handshake: Handshake) -> None:
            if is_direct:
                self.admission.prove(place.source)
            self._on_greeted(handshake)

        handshake = Handshake(
            pipe,
            self._credentials,
            ServerGreeting(self._core, is_direct=is_direct),
            greeted,
            failed,
            on_admitted=place.connections.leave,
            on_anonymous=on_anonymous,
        )
        place.connections.enter(handshake, place.source, _steady_s())


def _steady_s() -> float:
    return read_clocks("acceptor").steady_s
