"""Unauthenticated connections: how many, and which make room for others.

Whoever is there may connect, so room is what is fought for. A new connection gets the place of one
that had its time: of whoever has the most, first one that has said nothing. So many that come at
once do not push each other out, and many that stay silent keep nobody out. Pure: moments of the
steady clock are passed in.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from ipaddress import ip_address
from typing import Generic, NamedTuple, TypeVar

C = TypeVar("C", bound=Hashable)

SILENT_S = 0.5
"""How long a connection keeps its place without a word: the first is said at once, and is there
after one way through the network, or two where it was lost."""
SPEAKING_S = 3.0
"""How long one keeps it that has said something: a slow line and a busy machine take a second."""
NETWORK_BITS = 64
"""Of an address of IPv6: whoever has one has all of its network."""


class Bounds(NamedTuple):
    """Bounds of unauthenticated connections."""

    in_all: int
    of_source: int


class _Held(NamedTuple):
    source: str
    since_s: float


class UnauthenticatedConnections(Generic[C]):
    """Unauthenticated connections. `has_spoken` tells whether anything came over one."""

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
        """A connection of `source` is here; `who_goes` has found room for it."""
        self._held[connection] = _Held(source, now_s)
        self._of_source[source] += 1

    def leave(self, connection: C) -> None:
        """It has proved who it is, or is over; nothing, where that was said before."""
        held = self._held.pop(connection, None)
        if held is not None:
            self._of_source[held.source] -= 1
            if not self._of_source[held.source]:
                del self._of_source[held.source]

    def who_goes(self, source: str, now_s: float) -> tuple[list[C], str]:
        """(what is to be closed, why no other of `source` can come): one of them is empty.

        Both are where there is room.
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
        """The sources, who has the most first."""
        return [source for source, _ in self._of_source.most_common()]

    def _first_to_go(self, sources: list[str], now_s: float) -> C | None:
        """One that had its time, of the first of these that has one."""
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
    """Who may be behind an address: the address itself, or of IPv6 its network."""
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
