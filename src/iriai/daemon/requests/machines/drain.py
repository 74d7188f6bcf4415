"""Handlers of `iriai drain` and `resume`, here or for another machine."""

from __future__ import annotations

from iriai.daemon.loop.engine import Engine
from iriai.daemon.loop.pending import Pending
from iriai.daemon.net.link import MachineLink
from iriai.daemon.net.local_links import LocalLinks
from iriai.daemon.server.connections import RequestContext
from iriai.daemon.server.handler_table import handles
from iriai.daemon.server.request_scheduling import Durability
from iriai.daemon.startup.settings import DaemonSettings
from iriai.model.instant import Instant
from iriai.model.problem import NotFound, Problem
from iriai.state.kept_drain import check_reason
from iriai.wire.exchange import Done
from iriai.wire.links import Bid, Obeyed
from iriai.wire.machines import Drain, Resume


class DrainHandlers:
    """Handlers of drain and resume."""

    def __init__(
        self,
        settings: DaemonSettings,
        engine: Engine,
        durability: Durability,
        links: LocalLinks | None,
    ) -> None:
        """`links` are the links with back ends; None on a back end."""
        self._settings = settings
        self._engine = engine
        self._durability = durability
        self._links = links

    def bid(self, link: MachineLink, bid: Bid) -> None:
        """Carry out the request of an operator of the front end, who is told over the link."""

        def handle(now: Instant) -> None:
            try:
                stored = self._change_here(bid.body, bid.by, now)
            except Problem as problem:
                link.send_frame(Obeyed(bid.number, *problem.fields))
            else:
                stored.then(lambda: link.send_frame(_obeyed(bid, stored)))

        self._engine.request(handle)

    # --- changing --------------------------------------------------------------------------------

    @handles(Drain, Resume)
    async def _change(self, asked: RequestContext, body: Drain | Resume) -> Done:
        if isinstance(body, Drain):
            check_reason(body.reason)
        name, by = body.node or self._settings.home, asked.caller.person.name
        if name == self._settings.home and self._settings.role.has_node:
            await self._change_here(body, by, self._engine.now)
            return Done()
        known = self._links.known.names() if self._links else []
        if self._links is None or name not in known:
            own = [self._settings.home] if self._settings.role.has_node else []
            there = ", ".join([*own, *known]) or "none yet"
            raise NotFound(
                "no-such-machine",
                f"{name} is not a machine that runs tasks for {self._settings.home}",
                f"use one of: {there}",
            )
        await self._links.pass_on(name, body, by)
        return Done()

    def _change_here(self, body: Drain | Resume, by: str, now: Instant) -> Pending[None]:
        """Change the node; await the result until that is durable."""
        self._durability.check()
        reason = body.reason if isinstance(body, Drain) else None
        self._engine.machine.node.change(reason, by, now)
        return self._durability.stored()


def _obeyed(bid: Bid, stored: Pending[None]) -> Obeyed:
    try:
        stored.result()
    except Problem as problem:
        return Obeyed(bid.number, *problem.fields)
    return Obeyed(bid.number)
