"""Incoming network connections until they have authenticated.

Anybody can connect, so everything held before authentication is bounded here and in
`daemon.transport.tls_stream` (docs/spec/005, section 3).
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from iriai.daemon.net.credentials import Credentials
from iriai.daemon.net.handshake import Established, ServerHandshake
from iriai.daemon.net.violations import Violations
from iriai.daemon.transport.socket_stream import SocketStream, ignore
from iriai.daemon.transport.tls_stream import TlsStream
from iriai.policy.service.token_bucket import Rate, TokenBucket, TokenBuckets
from iriai.policy.service.unauthenticated import Bounds, UnauthenticatedConnections, source_of
from iriai.system.clock import now as read_clocks
from iriai.system.internal_errors import guarded
from iriai.wire.greetings import YIELD, Rejected

UNAUTHENTICATED = Bounds(in_all=256, of_source=8)
"""Connections whose peer has not authenticated, or is no machine and has shown no token. Several
machines may stand behind one router."""
MEMBERS = Bounds(in_all=256, of_source=32)
"""The same from addresses of members, which others cannot fill: the machines of a laboratory that
restart together need as many."""
RATE_OF_SOURCE = Rate(per_s=20.0, burst=100.0)
"""Connections from one address; a handshake takes a millisecond or two of work."""
RATE_OF_UNAUTHENTICATED = Rate(per_s=100.0, burst=400.0)
"""Connections of all peers that are not members: a sixth of one processor at most."""
PROVED_MAX = 4096
"""Sources remembered from which a member connected lately, beside the members' own addresses."""
ACCEPTED_MAX = 64
"""Connections accepted at a time, before the open ones are served again."""
NO_DESCRIPTORS = frozenset({errno.EMFILE, errno.ENFILE})
REST_S = 1.0
"""How long no connections are accepted when no descriptor is left."""
PLACE_NEEDED = "others need its place, and it has not authenticated"


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
        violations: Violations,
        decide: Callable[[str, bool], Rejected | None],
        on_greeted: Callable[[Established], None],
        on_failed: Callable[[str], None],
        is_member_at: Callable[[str], bool],
        on_anonymous: Callable[[AnonymousArrived], None] | None,
    ) -> None:
        """`decide` and `on_greeted` are as in `handshake.ServerHandshake`.

        `on_failed` gets the machine of each failed handshake (empty: not authenticated);
        `is_member_at` returns whether an address is one of a member. Without `on_anonymous`
        a peer that shows no certificate is refused.
        """
        self._on_anonymous = on_anonymous
        self._on_failed = on_failed
        self._credentials = credentials
        self._violations = violations
        self._decide = decide
        self._on_greeted = on_greeted
        self._is_member_at = is_member_at
        self._unauthenticated: UnauthenticatedConnections[ServerHandshake] = (
            UnauthenticatedConnections(UNAUTHENTICATED, _has_spoken)
        )
        self._members: UnauthenticatedConnections[ServerHandshake] = UnauthenticatedConnections(
            MEMBERS, _has_spoken
        )
        self._proved: OrderedDict[str, None] = OrderedDict()
        self._of_source: TokenBuckets[str] = TokenBuckets(RATE_OF_SOURCE)
        self._unauthenticated_rate = TokenBucket(RATE_OF_UNAUTHENTICATED, _steady_s())
        self._loop = asyncio.get_running_loop()
        self._listeners: list[socket.socket] = []

    @property
    def unauthenticated_count(self) -> int:
        """Connections whose peer has not authenticated."""
        return len(self._unauthenticated) + len(self._members)

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
        for handshake in [*self._unauthenticated, *self._members]:
            handshake.close("the daemon ends")

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(ACCEPTED_MAX):
            try:
                connection, peer = listener.accept()
            except OSError as error:
                if error.errno in NO_DESCRIPTORS:
                    self._pause(listener)
                return
            address = str(peer[0])
            connections, why_not = self._admit(address)
            if why_not:
                connection.close()
                self._violations.note(address, "too-many", why_not, _steady_s())
            else:
                self._answer(connection, address, connections)

    def _pause(self, listener: socket.socket) -> None:
        """Accept nothing for a while: the event loop would report the waiting ones all the time."""
        words = "the limit of open descriptors is reached: no connections are accepted"
        self._violations.note("an unauthenticated peer", "no-descriptors", words, _steady_s())
        self._loop.remove_reader(listener.fileno())

        def go_on() -> None:
            if listener in self._listeners:
                self._loop.add_reader(
                    listener.fileno(), guarded("an arrival", self._accept), listener
                )

        self._loop.call_later(REST_S, go_on)

    def _admit(self, address: str) -> tuple[UnauthenticatedConnections[ServerHandshake], str]:
        """Return where a connection from `address` counts, and why it is refused, if it is.

        Closes the connections that have to make room for it.
        """
        now_s, source = _steady_s(), source_of(address)
        is_member = source in self._proved or self._is_member_at(address)
        connections = self._members if is_member else self._unauthenticated
        displaced, why_not = connections.who_goes(source, now_s)
        if why_not:
            return connections, why_not
        if not self._of_source.consume(source, now_s):
            return connections, f"it connects more than {RATE_OF_SOURCE.per_s:.0f} times a second"
        if not is_member and not self._unauthenticated_rate.consume(now_s):
            return connections, (
                "unauthenticated peers connect more than "
                f"{RATE_OF_UNAUTHENTICATED.per_s:.0f} times a second"
            )
        for handshake in displaced:
            handshake.close(PLACE_NEEDED)
        return connections, ""

    def _prove(self, source: str) -> None:
        """Remember that a member connected from `source`."""
        self._proved[source] = None
        self._proved.move_to_end(source)
        if len(self._proved) > PROVED_MAX:
            self._proved.popitem(last=False)

    def _answer(
        self,
        connection: socket.socket,
        address: str,
        connections: UnauthenticatedConnections[ServerHandshake],
    ) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def greeted(result: Established) -> None:
            self._prove(source_of(address))
            self._on_greeted(result)

        def failed(machine: str, code: str, message: str) -> None:
            self._on_failed(machine)
            if code != YIELD:
                self._violations.note(machine or address, code, message, _steady_s())

        take = self._on_anonymous
        handshake = ServerHandshake(
            SocketStream(connection, ignore, ignore),
            self._credentials,
            is_direct=True,
            decide=self._decide,
            on_anonymous=take and (lambda stream: take(AnonymousArrived(stream, address))),
            on_done=greeted,
            on_failed=failed,
            on_admitted=connections.leave,
        )
        connections.enter(handshake, source_of(address), _steady_s())


def _has_spoken(handshake: ServerHandshake) -> bool:
    return handshake.stream.has_spoken


def _steady_s() -> float:
    return read_clocks("acceptor").steady_s
