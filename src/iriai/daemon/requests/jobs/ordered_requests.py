"""Submissions and alterations of one connection, one after the other."""

from __future__ import annotations

from iriai.daemon.loop.pending import Pending
from iriai.daemon.server.connections import ClientSession, RequestContext
from iriai.policy.service.request_order import Place, RequestOrder


class OrderedRequests:
    """Lets requests of each connection go on one after the other; see `RequestOrder`."""

    def __init__(self) -> None:
        self._order: RequestOrder[ClientSession] = RequestOrder()
        self._waiting: dict[Place[ClientSession], Pending[None]] = {}

    async def enter(self, asked: RequestContext) -> Place[ClientSession]:
        """Wait until those before it on its connection have left; raise `Refused` if too many."""
        place = self._order.enter(asked.connection, asked.size_bytes)
        if not place.is_first:
            pending = self._waiting[place] = Pending()
            await pending
        return place

    def leave(self, place: Place[ClientSession]) -> None:
        """Let the next of the connection go on."""
        following = self._order.leave(place)
        if following is not None:
            self._waiting.pop(following).resolve(None)
