"""Handlers of `iriai queues` and `iriai gangs`."""

from __future__ import annotations

from msgspec.structs import replace

from iriai.daemon.cluster.broker_rpc import BrokerRpc
from iriai.daemon.loop.engine import Engine
from iriai.daemon.server.connections import RequestContext
from iriai.daemon.server.handler_table import handles
from iriai.daemon.startup.live_configuration import LiveConfiguration
from iriai.model.instant import Instant
from iriai.reports.gangs import known_gangs
from iriai.reports.queues import known_queues, queues_for
from iriai.wire.machines import AskQueues, QueueTable
from iriai.wire.reports import Gangs, GangTable


class QueueHandlers:
    """Handlers of requests about queues, and what takes turns in them."""

    def __init__(self, live: LiveConfiguration, engine: Engine, inquirer: BrokerRpc) -> None:
        self._live = live
        self._engine = engine
        self._inquirer = inquirer
        inquirer.answerers[AskQueues] = lambda _, now: self._known(now)
        inquirer.answerers[Gangs] = lambda _, _now: self._known_gangs()

    def _known(self, now: Instant) -> QueueTable:
        return known_queues(self._engine.machine, self._live.now, now)

    @handles(AskQueues)
    async def _queues(self, asked: RequestContext, body: AskQueues) -> QueueTable:
        reply = await self._inquirer.ask(body, QueueTable)
        table = reply.checked()
        if table is None:
            note = f"{reply.missing}; it knows what waits"
            table = replace(self._known(self._engine.now), note=note)
        caller = asked.caller
        groups, is_operator = caller.person.groups, caller.operator
        return queues_for(table, self._live.now, groups, is_operator=is_operator)

    def _known_gangs(self) -> GangTable:
        return known_gangs(self._engine.machine, self._live.now)

    @handles(Gangs)
    async def _gangs(self, asked: RequestContext, body: Gangs) -> GangTable:
        reply = await self._inquirer.ask(body, GangTable)
        table = reply.checked()
        if table is None:
            note = f"{reply.missing}; it knows what takes turns"
            table = replace(self._known_gangs(), note=note)
        return table
