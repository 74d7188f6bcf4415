"""Unauthenticated connections: how many, and which make room for others.

Anybody in the network may connect, so places are scarce. A new connection replaces one whose time
is over, of the source with the most, first one that has sent nothing. So many that come at once do
not replace each other, and many that stay silent keep no others out. Pure: moments of the
steady clock are passed in.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from ipaddress import ip_address
from typing import Generic, NamedTuple, TypeVar

C = TypeVar("C", bound=Hashable)

SILENT_S = 0.5
"""The time that a silent connection keeps its place: a peer sends its first message at once, which
arrives after one network delay, or two if it was lost."""
SPEAKING_S = 3.0
"""The same after its first message: a slow line and a busy machine take a second."""
NETWORK_BITS = 64
"""The prefix of an IPv6 address that counts as one source: one host may use all of its network."""


class Bounds(NamedTuple):
    """Bounds of unauthenticated connections."""

    in_all: int
    of_source: int


class _Held(NamedTuple):
    source: str
    since_s: float


class UnauthenticatedConnections(Generic[C]):
    """Unauthenticated connections. `has_spoken` returns whether a connection sent anything."""

    def __init__(self, bounds: Bounds, has_spoken: Callable[[C], bool]) -> None:
        self.bounds = bounds
        self._has_spoken = has_spoken
        self._held: dict[C, _Held] = {}
        self._of_source: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[C]:
        return iter(self._held)

    def enter(self, connection: C, source: str, now_s: float) -> None:
        """Enter a connection of `source`, for which `who_goes` has found room."""
        self._held[connection] = _Held(source, now_s)
        self._of_source[source] += 1

    def leave(self, connection: C) -> None:
        """Remove a connection that authenticated or ended; ignore one that was removed before."""
        held = self._held.pop(connection, None)
        if held is not None:
            self._of_source[held.source] -= 1
            if not self._of_source[held.source]:
                del self._of_source[held.source]

    def who_goes(self, source: str, now_s: float) -> tuple[list[C], str]:
        """Return the connections to close, and why `source` may open no other.

        At least one of the two is empty; both are if there is room.
        """
        if self._of_source[source] >= self.bounds.of_source:
            words = f"{self.bounds.of_source} of its connections have not authenticated"
            first = self._first_to_go([source], now_s)
        elif len(self._held) >= self.bounds.in_all:
            words = f"{self.bounds.in_all} connections have not authenticated"
            first = self._first_to_go(self._by_number(), now_s)
        else:
            return [], ""
        return ([], words) if first is None else ([first], "")

    def _by_number(self) -> list[str]:
        """Return the sources, those with the most connections first."""
        return [source for source, _ in self._of_source.most_common()]

    def _first_to_go(self, sources: list[str], now_s: float) -> C | None:
        """Return a connection whose time is over, of the first source that has one."""
        over: dict[str, C] = {}
        for connection, held in self._held.items():  # the oldest first
            has_spoken = self._has_spoken(connection)
            age_s = now_s - held.since_s
            if age_s < (SPEAKING_S if has_spoken else SILENT_S):
                continue
            if held.source not in over or (not has_spoken and self._has_spoken(over[held.source])):
                over[held.source] = connection
        return next((over[source] for source in sources if source in over), None)


def source_of(address: str) -> str:
    """Return the source of an address: the address itself, or its network for IPv6."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if parsed.version == 4:
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    prefix = int(parsed) >> (128 - NETWORK_BITS)
    return f"{prefix:x}::/{NETWORK_BITS}"
