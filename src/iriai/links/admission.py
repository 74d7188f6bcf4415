"""Which connections that have not authenticated are admitted, and which make room for others.

Anybody can connect, and a relay may make up the names of openers of circuits, so everything held
before authentication is bounded here and in `daemon.transport.tls_stream` (docs/spec/005,
section 3).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from typing import Generic, NamedTuple, TypeVar

from iriai.links.address_book import AddressBook
from iriai.policy.service.token_bucket import Rate, TokenBucket, TokenBuckets
from iriai.policy.service.unauthenticated import Bounds, UnauthenticatedConnections, source_of

C = TypeVar("C", bound=Hashable)

UNAUTHENTICATED = Bounds(in_all=256, of_source=8)
"""Connections whose peer has not authenticated, or is no machine and has shown no token. Several
machines may stand behind one router."""
MEMBERS = Bounds(in_all=256, of_source=32)
"""The same from addresses of members, which others cannot fill: the machines of a laboratory that
restart together need as many."""
RELAYED = Bounds(in_all=128, of_source=32)
"""Circuits whose opener has not authenticated, by their relay."""
RATE_OF_SOURCE = Rate(per_s=20.0, burst=100.0)
"""Connections from one address; a handshake takes a millisecond or two of work."""
RATE_OF_UNAUTHENTICATED = Rate(per_s=100.0, burst=400.0)
"""Connections of all peers that are not members: a sixth of one processor at most."""
RATE_OF_RELAY = Rate(per_s=20.0, burst=200.0)
"""Incoming circuits through one relay: each takes a handshake."""
PROVED_MAX = 4096
"""Sources remembered from which a member connected lately, beside the members' own addresses."""
PLACE_NEEDED = "others need its place, and it has not authenticated"
"""Why a displaced connection is closed."""


class ConnectionPlace(NamedTuple, Generic[C]):
    """Where a new connection counts, and which ones it displaces."""

    connections: UnauthenticatedConnections[C]
    source: str
    displaced: list[C]
    why_not: str
    """Why the connection is refused; empty: it is admitted."""


class UnauthenticatedAdmission(Generic[C]):
    """Admits connections and circuits whose peers have not authenticated."""

    def __init__(
        self, book: AddressBook, has_spoken: Callable[[C], bool], now_steady_s: float
    ) -> None:
        """`has_spoken` returns whether a connection sent anything."""
        self.of_strangers = UnauthenticatedConnections(UNAUTHENTICATED, has_spoken)
        self.of_members = UnauthenticatedConnections(MEMBERS, has_spoken)
        self.relayed = UnauthenticatedConnections(RELAYED, has_spoken)
        self._book = book
        self._proved: OrderedDict[str, None] = OrderedDict()
        self._of_source: TokenBuckets[str] = TokenBuckets(RATE_OF_SOURCE)
        self._of_strangers = TokenBucket(RATE_OF_UNAUTHENTICATED, now_steady_s)
        self._of_relay: TokenBuckets[str] = TokenBuckets(RATE_OF_RELAY)

    def __iter__(self) -> Iterator[C]:
        return iter([*self.of_strangers, *self.of_members, *self.relayed])

    def connection(self, address: str, now_steady_s: float) -> ConnectionPlace[C]:
        """Return the place of a connection from `address`."""
        source = source_of(address)
        is_member = source in self._proved or self._book.is_at(address)
        connections = self.of_members if is_member else self.of_strangers
        displaced, why_not = connections.who_goes(source, now_steady_s)
        if not why_not and not self._of_source.consume(source, now_steady_s):
            why_not = f"it connects more than {RATE_OF_SOURCE.per_s:.0f} times a second"
        elif not why_not and not is_member and not self._of_strangers.consume(now_steady_s):
            per_s = RATE_OF_UNAUTHENTICATED.per_s
            why_not = f"unauthenticated peers connect more than {per_s:.0f} times a second"
        return ConnectionPlace(connections, source, displaced, why_not)

    def circuit(self, relay: str, now_steady_s: float) -> ConnectionPlace[C]:
        """Return the place of a circuit that another machine opened through `relay`."""
        displaced, why_not = self.relayed.who_goes(relay, now_steady_s)
        if not why_not and not self._of_relay.consume(relay, now_steady_s):
            why_not = f"more than {RATE_OF_RELAY.per_s:.0f} circuits a second"
        return ConnectionPlace(self.relayed, relay, displaced, why_not)

    def prove(self, source: str) -> None:
        """Remember that a member connected from `source`."""
        self._proved[source] = None
        self._proved.move_to_end(source)
        if len(self._proved) > PROVED_MAX:
            self._proved.popitem(last=False)
