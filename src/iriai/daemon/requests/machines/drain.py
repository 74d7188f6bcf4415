"""Handlers of `iriai drain` and `resume`, here or for a back end."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from iriai.daemon.cluster.broker_rpc import BrokerRpc
from iriai.daemon.cluster.node_drain import NodeDrain
from iriai.daemon.loop.engine import Engine
from iriai.daemon.server.connections import RequestContext
from iriai.daemon.server.handler_table import handles
from iriai.daemon.startup.settings import DaemonSettings
from iriai.model.problem import NotFound
from iriai.protocol.messages.effects import Part
from iriai.state.kept_drain import check_reason
from iriai.wire.exchange import Done
from iriai.wire.machines import Drain, Resume

if TYPE_CHECKING:
    from iriai.cluster.member import SeenMember


class DrainHandlers:
    """Handlers of drain and resume."""

    def __init__(
        self,
        settings: DaemonSettings,
        engine: Engine,
        drain: NodeDrain,
        inquirer: BrokerRpc,
        seen: Callable[[], list[SeenMember]],
    ) -> None:
        """`seen` returns all members with this machine, none outside of a cluster."""
        self._settings = settings
        self._engine = engine
        self._drain = drain
        self._inquirer = inquirer
        self._seen = seen

    @handles(Drain, Resume)
    async def _change(self, asked: RequestContext, body: Drain | Resume) -> Done:
        reason = body.reason if isinstance(body, Drain) else None
        if reason is not None:
            check_reason(reason)
        name, by = body.node or self._settings.home, asked.caller.person.name
        if name == self._settings.home and self._settings.role.has_node:
            await self._drain.change(reason, by, self._engine.now)
            return Done()
        known = [each.member.name for each in self._seen() if Part.NODE in each.member.parts]
        if name not in known:
            own = [self._settings.home] if self._settings.role.has_node else []
            there = ", ".join(dict.fromkeys([*own, *known])) or "none yet"
            raise NotFound(
                "no-such-machine",
                f"{name} is not a machine that runs tasks for {self._settings.home}",
                f"use one of: {there}",
            )
        await self._inquirer.drain(name, reason, by)
        return Done()
