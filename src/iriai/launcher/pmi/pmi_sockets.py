"""The sockets through which the ranks that run here speak PMI-1.

The launcher serves them itself: what they have put lives exactly as long as they do, so that
neither a daemon nor its end matters to them (docs/spec/011, section 9). One event reads at most
`READ_BYTES` of one rank, so a rank that asks without end keeps others waiting no longer than that.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from typing import NamedTuple

from iriai.launcher.contract.messages import SeatBarrier, StartOrder
from iriai.launcher.environment.rank_variables import seats_of
from iriai.launcher.pmi.lines import LINE_BYTES_MAX
from iriai.launcher.pmi.seat_server import (
    Abort,
    BarrierReached,
    Hang,
    PmiEvent,
    RankAnswer,
    SeatServer,
)
from iriai.model.ids import AttemptId

READ_BYTES = LINE_BYTES_MAX
"""Read of one rank at once: the longest line."""


KEPT = 2
"""Barriers of a seat that are told again to a daemon that knows of none: the one at which it waits,
and the one before, at which others may wait still."""


class Watch(NamedTuple):
    """The loop that waits for descriptors."""

    begin: Callable[[int, Callable[[], None]], None]
    """Calls a function whenever a descriptor is readable."""
    end: Callable[[int], None]
    """Calls it no more."""


class _Seat:
    """The connections of the ranks of one seat."""

    def __init__(self, order: StartOrder) -> None:
        seats = tuple(seat.ranks for seat in seats_of(order))
        name = str(order.attempt.seat(0))
        self.server = SeatServer(name, seats, order.attempt.rank, order.ranks)
        self.sockets: dict[int, socket.socket] = {}


class PmiSockets:
    """The connections of all ranks that run here."""

    def __init__(self, watch: Watch, aborted: Callable[[AttemptId, Abort], None]) -> None:
        """`aborted` is told of a rank of a seat that aborts."""
        self._watch = watch
        self._aborted = aborted
        self._seats: dict[AttemptId, _Seat] = {}
        self._barriers: dict[AttemptId, list[BarrierReached]] = {}
        """The last barriers of each seat whose attempt has others."""
        self.news: list[SeatBarrier] = []
        """What `drain_news` returns."""

    def connect(self, order: StartOrder, rank: int) -> int:
        """Make the connection of a rank; return its end of it, which the caller closes.

        Raises OSError.
        """
        attempt = order.attempt
        seat = self._seats.get(attempt)
        if seat is None:
            seat = self._seats[attempt] = _Seat(order)
        own, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        own.setblocking(False)
        seat.sockets[rank] = own
        self._watch.begin(own.fileno(), lambda: self._receive(attempt, rank))
        return its.detach()

    def close(self, attempt: AttemptId) -> None:
        """Close all connections of a seat."""
        seat = self._seats.pop(attempt, None)
        self._barriers.pop(attempt, None)
        if seat is not None:
            for rank in list(seat.sockets):
                self._hang_up(seat, rank)

    def drain_news(self) -> list[SeatBarrier]:
        """Return the barriers that seats have come to since the last call."""
        news, self.news = self.news, []
        return news

    def barriers(self) -> list[SeatBarrier]:
        """Return the last barriers of all seats, for a daemon that knows of none."""
        self.news = []
        return [_told(attempt, each) for attempt, last in self._barriers.items() for each in last]

    def fenced(self, attempt: AttemptId, number: int, gathered: Mapping[bytes, bytes]) -> None:
        """Let the ranks of a seat go on from a barrier that those of all seats have come to."""
        seat = self._seats.get(attempt)
        if seat is not None:
            self._perform(attempt, seat, seat.server.fenced(number, gathered))

    def _receive(self, attempt: AttemptId, rank: int) -> None:
        seat = self._seats.get(attempt)
        connection = seat.sockets.get(rank) if seat is not None else None
        if seat is None or connection is None:
            return
        try:
            content = connection.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            content = b""
        if content:
            self._perform(attempt, seat, seat.server.receive(rank, content))
        else:
            seat.server.hung_up(rank)
            self._hang_up(seat, rank)

    def _perform(self, attempt: AttemptId, seat: _Seat, events: list[PmiEvent]) -> None:
        for event in events:
            match event:
                case RankAnswer(rank, content):
                    self._send(seat, rank, content)
                case Hang(rank, _):
                    self._hang_up(seat, rank)
                case Abort():
                    self._aborted(attempt, event)
                case BarrierReached():
                    self._barriers[attempt] = [*self._barriers.get(attempt, ()), event][-KEPT:]
                    self.news.append(_told(attempt, event))

    def _send(self, seat: _Seat, rank: int, content: bytes) -> None:
        """Send an answer. A rank that does not read the answers before it loses its connection."""
        connection = seat.sockets.get(rank)
        if connection is None:
            return
        try:
            sent = connection.send(content)
        except OSError:
            sent = 0
        if sent < len(content):
            seat.server.hung_up(rank)
            self._hang_up(seat, rank)

    def _hang_up(self, seat: _Seat, rank: int) -> None:
        connection = seat.sockets.pop(rank, None)
        if connection is not None:
            self._watch.end(connection.fileno())
            connection.close()


def _told(attempt: AttemptId, reached: BarrierReached) -> SeatBarrier:
    return SeatBarrier(attempt, reached.number, tuple(reached.put.items()))
