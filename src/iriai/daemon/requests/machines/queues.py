"""Handlers of `iriai queues` and `iriai queue`."""

from __future__ import annotations

import logging

from msgspec.structs import replace

from iriai.daemon.cluster.broker_rpc import BrokerRpc
from iriai.daemon.loop.engine import Engine
from iriai.daemon.server.connections import RequestContext
from iriai.daemon.server.handler_table import handles
from iriai.daemon.server.request_scheduling import Durability
from iriai.daemon.startup.live_configuration import LiveConfiguration
from iriai.model.instant import Instant
from iriai.model.problem import Refused
from iriai.reports.queues import known_queues, queues_for
from iriai.store.writer import Writer
from iriai.wire.exchange import Done
from iriai.wire.machines import AskQueues, QueueTable, SetQueue

log = logging.getLogger(__name__)

JOBS_SHOWN = 5
"""Jobs that a refusal names: as many as fit into a line."""


class QueueHandlers:
    """Handlers of the requests about queues."""

    def __init__(
        self,
        live: LiveConfiguration,
        engine: Engine,
        inquirer: BrokerRpc,
        durability: Durability,
        writer: Writer,
        *,
        is_member: bool,
    ) -> None:
        """`is_member`: the machine is in a cluster, whose document has the queues."""
        self._live = live
        self._engine = engine
        self._inquirer = inquirer
        self._durability = durability
        self._writer = writer
        self._is_member = is_member
        inquirer.answerers[AskQueues] = lambda _, now: self._known(now)

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

    @handles(SetQueue)
    async def _set(self, asked: RequestContext, body: SetQueue) -> Done:
        self._durability.check()
        if self._is_member:
            raise Refused(
                "queues-of-cluster",
                "the queues of a cluster are in the configuration that its machines share",
                "change [queues] with 'iriai config edit': it is in force at once",
            )
        if not body.settings and self._live.without(body.number).queue(body.number) is None:
            self._check_empty(body.number)
        by = asked.caller.person.name
        row = self._live.set_queue(body.number, body.settings, by, self._engine.now.wall_s)
        asked.is_changing = True
        self._writer.submit([row])
        await self._durability.stored()
        self._live.adopt_set()
        words = ", ".join(f"{key} = {value}" for key, value in body.settings)
        log.info("queue %d was set by %s: %s", body.number, by, words or "as in the file")
        return Done()

    def _check_empty(self, number: int) -> None:
        """Raise `Refused` if jobs wait in a queue."""
        home = self._engine.machine.home
        jobs = [job.number for job in home.jobs.values() if job.spec.queue == number]
        inside = [f"{home.name}-{each}" for each in jobs]
        if inside:
            shown = ", ".join(inside[:JOBS_SHOWN])
            more = f" and {len(inside) - JOBS_SHOWN} more" if len(inside) > JOBS_SHOWN else ""
            raise Refused(
                "queue-not-empty",
                f"queue {number} would be gone, and jobs are in it: {shown}{more}",
                "move them with 'iriai alter JOB --queue N', or cancel them",
            )
