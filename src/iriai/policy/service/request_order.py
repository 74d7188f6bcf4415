"""Which request is next: fair turns among users, and the order within each client.

Of the submissions and alterations of a client only the first goes on. It may take long, since it
may have to wait for the broker of another machine; whatever comes behind it waits, and is bounded.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

from iriai.model.problem import Refused

ClientT = TypeVar("ClientT", bound=Hashable)

LINE_BYTES_MAX = 64 << 20
"""What one client has in line when more of its requests are refused: thousands of submissions, each
with its environment. The line is short again when the broker has answered, or has not, within
seconds."""
ALL_LINES_BYTES_MAX = 256 << 20
"""The same of all clients: as much as a single request may hold."""
REQUEST_BYTES = 2048
"""What a request takes in memory beside what came."""


class Place(Generic[ClientT]):
    """One request in the line of its client."""

    __slots__ = ("client", "is_first", "size_bytes")

    def __init__(self, client: ClientT, size_bytes: int, *, is_first: bool) -> None:
        self.client = client
        self.size_bytes = size_bytes
        self.is_first = is_first
        """Whether it goes on without waiting."""


class _Line(Generic[ClientT]):
    def __init__(self) -> None:
        self.places: deque[Place[ClientT]] = deque()
        self.size_bytes = 0


class RequestOrder(Generic[ClientT]):
    """The lines of all clients."""

    def __init__(self) -> None:
        self._lines: dict[ClientT, _Line[ClientT]] = {}
        self._bytes = 0

    def enter(self, client: ClientT, size_bytes: int) -> Place[ClientT]:
        """Append a request of `size_bytes`, as it came; raise `Refused` if too many wait."""
        line = self._lines.get(client)
        if line is not None and line.size_bytes >= LINE_BYTES_MAX:
            raise _too_many(len(line.places), "on this connection", line.size_bytes)
        if self._bytes >= ALL_LINES_BYTES_MAX:
            count = sum(len(each.places) for each in self._lines.values())
            raise _too_many(count, "of all clients", self._bytes)
        place = Place(client, size_bytes + REQUEST_BYTES, is_first=line is None)
        if line is None:
            line = self._lines[client] = _Line()
        line.places.append(place)
        line.size_bytes += place.size_bytes
        self._bytes += place.size_bytes
        return place

    def leave(self, place: Place[ClientT]) -> Place[ClientT] | None:
        """Remove a request that is decided; return the one that goes on now."""
        line = self._lines[place.client]
        was_first = line.places[0] is place
        line.places.remove(place)
        line.size_bytes -= place.size_bytes
        self._bytes -= place.size_bytes
        if not line.places:
            del self._lines[place.client]
            return None
        return line.places[0] if was_first else None


def _too_many(count: int, whose: str, size_bytes: int) -> Refused:
    return Refused(
        "too-many-submissions",
        f"{count} submissions and alterations {whose} ({size_bytes >> 20} MiB) already wait for "
        "the broker's answer",
        "try again in some seconds; submit many equal tasks as one job with --array",
    )


class FairTurns:
    """The users who wait to be served; pure. Times are seconds of work.

    Start-time fair queueing (Goyal, Vin and Cheng, 1996) with costs that are known afterwards:
    each user has a virtual time, which grows by what serving them took, and who has the smallest
    is next. A user who returns after a pause begins where the others are: idling earns nothing.
    """

    def __init__(self) -> None:
        self.waiting: dict[str, float] = {}
        """The virtual time of each user who waits; read only for others."""
        self._resting: dict[str, float] = {}
        """The virtual time of users who do not wait, and are still ahead of `_floor_s`."""
        self._floor_s = 0.0
        """The virtual time of the user who was served last."""

    def enter(self, user: str) -> None:
        """Enter a user who waits from now on."""
        self.waiting[user] = max(self._resting.pop(user, 0.0), self._floor_s)

    def leave(self, user: str) -> None:
        """Remove a user who does not wait any more."""
        virtual_s = self.waiting.pop(user)
        if not self.waiting:
            self._resting.clear()  # nobody is there to be ahead of
        elif virtual_s > self._floor_s:
            self._resting[user] = virtual_s

    def next(self) -> str:
        """Return the user to serve; there is one who waits."""
        user = min(self.waiting, key=self.waiting.__getitem__)
        if self.waiting[user] > self._floor_s:
            self._floor_s = self.waiting[user]
            self._resting = {
                each: virtual_s
                for each, virtual_s in self._resting.items()
                if virtual_s > self._floor_s
            }
        return user

    def charge(self, user: str, took_s: float, weight: float = 1.0) -> None:
        """Charge `user`, who has `weight` times the usual share, for a service of `took_s`."""
        self.waiting[user] += took_s / weight
