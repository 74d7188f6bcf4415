"""Handler of what operators set while the daemon runs, of a machine without a cluster."""

from __future__ import annotations

import logging

from iriai.config.live_settings import LiveChange, check_stays, checked
from iriai.daemon.loop.engine import Engine
from iriai.daemon.server.connections import RequestContext
from iriai.daemon.server.handler_table import handles
from iriai.daemon.server.request_scheduling import Durability
from iriai.daemon.startup.live_configuration import LiveConfiguration
from iriai.daemon.startup.rc_run import RcRun
from iriai.model.problem import Refused
from iriai.model.records import SectionSet
from iriai.protocol.messages.effects import Part
from iriai.store.writer import Writer
from iriai.wire.exchange import Done
from iriai.wire.machines import SetSection

log = logging.getLogger(__name__)


class SettingHandlers:
    """Handler of `SetSection`, and the run of the rc file."""

    def __init__(
        self,
        live: LiveConfiguration,
        engine: Engine,
        durability: Durability,
        writer: Writer,
        *,
        is_member: bool,
    ) -> None:
        """`is_member`: the machine is in a cluster, whose document has the live sections."""
        self._live = live
        self._engine = engine
        self._durability = durability
        self._writer = writer
        self._is_member = is_member

    @handles(SetSection)
    async def _set(self, asked: RequestContext, body: SetSection) -> Done:
        self._durability.check()
        if self._is_member:
            raise Refused(
                "set-by-document",
                "queues, pools and gangs of a cluster are in the configuration that it shares",
                "repeat the command, which signs the next one, or use 'iriai config edit'",
            )
        change = checked(body.section, body.name, body.settings)
        by = asked.caller.person.name
        row = self._row(change, by)
        asked.is_changing = True
        self._writer.submit([row])
        await self._durability.stored()
        self._live.adopt_set()
        log.info("%s, by %s", change, by)
        return Done()

    def run(self, rc: RcRun) -> None:
        """Run the rc file of this start. Before the first turn, whose commit stores it."""

        def perform(change: LiveChange) -> None:
            row = self._row(change, rc.path)
            self._writer.submit([row])
            self._live.adopt_set()
            log.info("%s, by %s", change, rc.path)

        rc.run(perform)

    def _row(self, change: LiveChange, by: str) -> SectionSet:
        """Set what `by` says; return what is to be stored. Raises `Refused`."""
        if not change.settings:
            check_stays(self._live.without(change), change, self._inside)
        return self._live.set(change, by, self._engine.now.wall_s)

    def _inside(self, queue: int) -> list[str]:
        """Return the jobs of this machine that are in a queue."""
        if Part.HOME not in self._engine.machine.parts:
            return []
        home = self._engine.machine.home
        numbers = [job.number for job in home.jobs.values() if job.spec.queue == queue]
        return [f"{home.name}-{each}" for each in numbers]
