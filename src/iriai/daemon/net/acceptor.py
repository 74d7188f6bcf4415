"""Incoming network connections until they have authenticated.

Whoever is there may connect; so all that can be held before a proof is bounded here and in
`daemon.transport.tls_stream` (docs/spec/005, section 3).
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections import OrderedDict
from collections.abc import Callable

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

STRANGERS = Bounds(in_all=256, of_source=8)
"""Connections whose peer has not proved who it is, or has proved that it is no machine and shown no
token. Several machines may stand behind one router."""
MEMBERS = Bounds(in_all=256, of_source=32)
"""The same from where members are, whom strangers keep no room from: a laboratory that starts again
at once brings as many, and the rest a moment later."""
RATE_OF_SOURCE = Rate(per_s=20.0, burst=100.0)
"""Connections; each takes a millisecond or two of work for its handshake."""
RATE_OF_STRANGERS = Rate(per_s=100.0, burst=400.0)
"""Of all strangers together: a sixth of one processor at most."""
PROVED_MAX = 4096
"""Sources from which a member came lately, whose address may be no address of a member."""
ACCEPTED_MAX = 64
"""Connections that are taken before whoever is connected is heard again."""
NO_DESCRIPTORS = frozenset({errno.EMFILE, errno.ENFILE})
REST_S = 1.0
"""How long no connections are taken where no descriptor is left."""
PLACE_NEEDED = "others need its place, and it has not authenticated"


class Acceptor:
    """Accepts network connections, and holds them until they have authenticated."""

    def __init__(
        self,
        passport: Credentials,
        offences: Violations,
        decide: Callable[[str, bool], Rejected | None],
        on_greeted: Callable[[Established], None],
        on_failed: Callable[[str], None],
        is_member_at: Callable[[str], bool],
    ) -> None:
        """`decide` and `on_greeted` are those of `handshake.ServerHandshake`.

        `on_failed` hears which machine did not come to a link; `is_member_at` tells whether a
        member said that it is at an address.
        """
        self.on_anonymous: Callable[[TlsStream, str], None] | None = None
        """Takes connections of peers without a certificate, who may ask to join or show a token,
        and their address; None: they are turned away. `trust` lets one stay."""
        self._on_failed = on_failed
        self._credentials = passport
        self._violations = offences
        self._decide = decide
        self._on_greeted = on_greeted
        self._is_member_at = is_member_at
        self._unauthenticated: UnauthenticatedConnections[ServerHandshake] = (
            UnauthenticatedConnections(STRANGERS, _has_spoken)
        )
        self._members: UnauthenticatedConnections[ServerHandshake] = UnauthenticatedConnections(
            MEMBERS, _has_spoken
        )
        self._proved: OrderedDict[str, None] = OrderedDict()
        self._of_source: TokenBuckets[str] = TokenBuckets(RATE_OF_SOURCE)
        self._unauthenticated_rate = TokenBucket(RATE_OF_STRANGERS, _steady_s())
        self._loop = asyncio.get_running_loop()
        self._listeners: list[socket.socket] = []

    @property
    def unauthenticated_count(self) -> int:
        """Connections whose peer has not proved who it is."""
        return len(self._unauthenticated) + len(self._members)

    def open(self, listeners: list[socket.socket]) -> None:
        """Take connections from here on."""
        self._listeners = listeners
        for listener in listeners:
            listener.setblocking(False)
            self._loop.add_reader(listener.fileno(), guarded("an arrival", self._accept), listener)

    def close(self) -> None:
        """Take no more, and end those that have proved nothing."""
        for listener in self._listeners:
            self._loop.remove_reader(listener.fileno())
            listener.close()
        self._listeners = []
        for answered in [*self._unauthenticated, *self._members]:
            answered.close("the daemon ends")

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(ACCEPTED_MAX):
            try:
                connection, peer = listener.accept()
            except OSError as error:
                if error.errno in NO_DESCRIPTORS:
                    self._pause(listener)
                return
            address = str(peer[0])
            room, why = self._has_capacity_for(address)
            if why:
                connection.close()
                self._violations.note(address, "too-many", why, _steady_s())
            else:
                self._answer(connection, address, room)

    def _pause(self, listener: socket.socket) -> None:
        """Take no connections for a while: those that wait would be told of again and again."""
        words = "the limit of open descriptors is reached: no connections are accepted"
        self._violations.note("an unauthenticated peer", "no-descriptors", words, _steady_s())
        self._loop.remove_reader(listener.fileno())

        def go_on() -> None:
            if listener in self._listeners:
                self._loop.add_reader(
                    listener.fileno(), guarded("an arrival", self._accept), listener
                )

        self._loop.call_later(REST_S, go_on)

    def _has_capacity_for(
        self, address: str
    ) -> tuple[UnauthenticatedConnections[ServerHandshake], str]:
        """Where a connection from there is counted, and why it is not taken; empty: it is."""
        now_s, source = _steady_s(), source_of(address)
        is_member = source in self._proved or self._is_member_at(address)
        room = self._members if is_member else self._unauthenticated
        goes, why = room.who_goes(source, now_s)
        if why:
            return room, why
        if not self._of_source.consume(source, now_s):
            return room, f"it connects more than {RATE_OF_SOURCE.per_s:.0f} times a second"
        if not is_member and not self._unauthenticated_rate.consume(now_s):
            return room, (
                "unauthenticated peers connect more than "
                f"{RATE_OF_STRANGERS.per_s:.0f} times a second"
            )
        for answered in goes:
            answered.close(PLACE_NEEDED)
        return room, ""

    def _prove(self, source: str) -> None:
        """A member came from there."""
        self._proved[source] = None
        self._proved.move_to_end(source)
        if len(self._proved) > PROVED_MAX:
            self._proved.popitem(last=False)

    def _answer(
        self,
        connection: socket.socket,
        address: str,
        room: UnauthenticatedConnections[ServerHandshake],
    ) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def greeted(result: Established) -> None:
            self._prove(source_of(address))
            self._on_greeted(result)

        def anonymous(stream: TlsStream) -> None:
            if self.on_anonymous is not None:
                self.on_anonymous(stream, address)
            else:
                failed("", "no-certificate", "it has shown no certificate")
                stream.close("it has shown no certificate")

        def failed(machine: str, code: str, message: str) -> None:
            self._on_failed(machine)
            if code != YIELD:
                self._violations.note(machine or address, code, message, _steady_s())

        answered = ServerHandshake(
            SocketStream(connection, ignore, ignore),
            self._credentials,
            is_direct=True,
            decide=self._decide,
            on_anonymous=anonymous,
            on_done=greeted,
            on_failed=failed,
        )
        room.enter(answered, source_of(address), _steady_s())
        answered.stream.on_admitted = lambda: room.leave(answered)


def _has_spoken(answered: ServerHandshake) -> bool:
    return answered.stream.has_spoken


def _steady_s() -> float:
    return read_clocks("doorway").steady_s
