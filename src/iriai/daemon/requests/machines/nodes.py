"""Handlers of `iriai nodes` and `iriai pools`: the list of machines, and the removal of one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from iriai.daemon.cluster.broker_rpc import BrokerRpc
from iriai.daemon.loop.engine import Engine
from iriai.daemon.server.connections import RequestContext
from iriai.daemon.server.handler_table import handles
from iriai.host.load_sensor import LoadSensor
from iriai.model.problem import Refused
from iriai.protocol.messages.effects import Part
from iriai.reports.nodes import (
    broker_table,
    check_removable,
    own_table,
    tables_of_site,
    with_members,
)
from iriai.reports.pools import known_pools, pools_of_site, pools_without_broker
from iriai.wire.exchange import Done
from iriai.wire.machines import AskNodes, AskPools, Forget, NodeTable, PoolTable

if TYPE_CHECKING:
    from iriai.cluster.member import SeenMember


class NodeTables:
    """Handlers of the requests about the list of machines."""

    def __init__(
        self,
        cluster_name: str,
        engine: Engine,
        sensor: LoadSensor,
        inquirer: BrokerRpc,
        seen: Callable[[], list[SeenMember]],
    ) -> None:
        """`cluster_name` is empty outside of a site of several clusters.

        `seen` returns all members with this machine, none outside of a cluster.
        """
        self._cluster_name = cluster_name
        self._engine = engine
        self._sensor = sensor
        self._inquirer = inquirer
        self._seen = seen
        inquirer.answerers[AskPools] = lambda _, _now: known_pools(engine.machine)
        inquirer.answerers[AskNodes] = lambda _, now: broker_table(engine.machine, now)

    @handles(AskNodes)
    async def _nodes(self, asked: RequestContext, body: AskNodes) -> NodeTable:
        machine, load = self._engine.machine, (self._sensor.average, self._sensor.foreign)
        if Part.HOME not in machine.parts:
            return own_table(machine, load)
        reply = await self._inquirer.ask(body, NodeTable)
        near = reply.checked() or own_table(machine, load, reply.missing)
        others = await self._inquirer.ask_clusters(body, NodeTable)
        table = tables_of_site(near, others)
        return with_members(table, machine, self._seen(), self._cluster_name)

    @handles(AskPools)
    async def _pools(self, asked: RequestContext, body: AskPools) -> PoolTable:
        machine, load = self._engine.machine, (self._sensor.average, self._sensor.foreign)
        if Part.HOME not in machine.parts:
            return known_pools(machine, load)
        reply = await self._inquirer.ask(body, PoolTable)
        near = reply.checked() or pools_without_broker(machine, load, reply.missing)
        others = await self._inquirer.ask_clusters(body, PoolTable)
        return pools_of_site(machine.cluster, near, others)

    @handles(Forget)
    async def _forget(self, asked: RequestContext, body: Forget) -> Done:
        machine = self._engine.machine
        if Part.HOME not in machine.parts:
            raise Refused(
                "no-front-end",
                f"{machine.name} is a back end, which lists no other machine",
                "run the command for its front end, with --state and the front end's state "
                "directory",
            )
        check_removable(body.node, machine, self._seen())
        machine.forget(body.node, self._engine.now)
        return Done()
