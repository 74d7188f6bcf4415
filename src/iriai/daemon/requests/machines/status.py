"""Handlers of requests about the daemon itself, the machine and its accounts."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Protocol

from iriai import __version__
from iriai.broker.core import Broker
from iriai.daemon.cluster.broker_rpc import BrokerRpc
from iriai.daemon.host.load_sensor import LoadSensor
from iriai.daemon.loop.engine import Engine
from iriai.daemon.requests.cluster.handlers import trusted_rows
from iriai.daemon.requests.jobs.history import JobHistory
from iriai.daemon.requests.jobs.views import amounts
from iriai.daemon.requests.machines.doctor import findings
from iriai.daemon.server.connections import RequestContext
from iriai.daemon.server.handler_table import handles
from iriai.daemon.server.limited_users import LimitedUsers
from iriai.daemon.startup.hardware import load_average
from iriai.daemon.startup.settings import DaemonSettings
from iriai.daemon.tasks.launcher_client import LauncherClient
from iriai.model.home_trust import users_text
from iriai.model.instant import Instant
from iriai.model.problem import NotAllowed
from iriai.model.reason import Rule
from iriai.store.writer import Writer
from iriai.system.internal_errors import FAULTS
from iriai.wire.exchange import Done
from iriai.wire.machines import LinkRow, MemberRow
from iriai.wire.reports import (
    AskUsage,
    ClusterSight,
    ConfigurationTable,
    Doctor,
    DoctorReport,
    Setting,
    ShareRow,
    Shares,
    ShareTable,
    ShowConfiguration,
    Status,
    StatusReport,
    UsageTable,
)
from iriai.wire.requests import PROTOCOL_VERSION, SAME_VERSION, Down, Hello, Welcome


class MachineLinks(Protocol):
    """Links with other machines, of one kind or several."""

    def rows(self) -> tuple[LinkRow, ...]:
        """Return the state of each link."""

    def members(self) -> tuple[MemberRow, ...]:
        """Return the other machines of the cluster."""

    def trouble(self) -> list[str]:
        """Return problems of links, one sentence each."""


class StatusHandlers:
    """Handlers of the requests about the daemon, the machine and its accounts."""

    def __init__(
        self,
        settings: DaemonSettings,
        engine: Engine,
        launcher: LauncherClient,
        past: JobHistory,
        writer: Writer,
        links: MachineLinks | None,
        sensor: LoadSensor,
        inquirer: BrokerRpc,
        sight: Callable[[], ClusterSight | None],
        limited: LimitedUsers,
        on_down: Callable[[bool], None],
        now: Instant,
    ) -> None:
        """`on_down` ends the daemon, with True also all tasks; `sight` describes the cluster."""
        self._settings = settings
        self._engine = engine
        self._launcher = launcher
        self._history = past
        self._writer = writer
        self._links = links
        self._sensor = sensor
        self._inquirer = inquirer
        inquirer.answerers[Shares] = self._share_table
        self._sight = sight
        self._limited = limited
        self._on_down = on_down
        self._began_steady_s = now.steady_s

    @handles(Hello)
    async def _hello(self, asked: RequestContext, body: Hello) -> Welcome:
        if body.version != PROTOCOL_VERSION:
            raise NotAllowed(
                "other-version",
                f"this daemon uses version {PROTOCOL_VERSION} of the protocol, the client "
                f"version {body.version}",
                SAME_VERSION,
            )
        return Welcome(
            PROTOCOL_VERSION,
            self._settings.home,
            self._settings.paths.directory,
            os.getpid(),
            asked.caller.person.name,
            asked.caller.operator,
            self._settings.role.front,
        )

    @handles(Shares)
    async def _shares(self, asked: RequestContext, body: Shares) -> ShareTable:
        reply = await self._inquirer.ask(body, ShareTable)
        if reply.problem is not None:
            raise reply.problem
        if reply.answer is not None:
            return reply.answer
        machine, now = self._engine.machine, self._engine.now
        note = (
            f"{reply.missing}; this is what machines counted, as far as {machine.name} has "
            "received it"
        )
        return self._table_of(machine.without_broker(now), now, note)

    def _share_table(self, body: Shares, now: Instant) -> ShareTable:
        """Answer as the broker."""
        return self._table_of(self._engine.machine.broker, now)

    def _table_of(self, broker: Broker, now: Instant, note: str = "") -> ShareTable:
        order = self._settings.configuration.order
        rows = tuple(
            ShareRow(
                share.account.group,
                share.account.user,
                share.right,
                share.usage_s,
                share.running_cpus,
                share.waiting_tasks,
                share.share_wanted,
                share.share_got,
                share.rate,
                share.advance_s,
            )
            for share in broker.shares(now)
        )
        factor = order.offpeak_factor if broker.offpeak.is_offpeak else None
        return ShareTable(order.name, order.half_life_s, rows, factor, order.window_s, note)

    @handles(AskUsage)
    async def _usage(self, asked: RequestContext, body: AskUsage) -> UsageTable:
        """Sum the history in a thread, once all that happened so far is stored."""
        caller = asked.caller
        user = None if body.everyone and caller.operator else caller.person.name

        def ask() -> UsageTable:
            rows = self._history.usage(body.since_wall_s, user, body.by)
            return UsageTable(rows, self._history.history_from_wall_s())

        await self._engine.written()
        return await self._engine.answer_of_thread(ask)

    @handles(Status)
    async def _status(self, asked: RequestContext, body: Status) -> StatusReport:
        welcome = self._launcher.welcome
        settings = self._settings
        return StatusReport(
            settings.home,
            __version__,
            settings.paths.directory,
            settings.paths.daemon_socket,
            os.getpid(),
            welcome.pid if welcome else None,
            settings.supervisor_pid,
            settings.mode,
            settings.configuration.order.name,
            self._engine.now.steady_s - self._began_steady_s,
            *self._capacity(),
            settings.configuration.machine.speed,
            *self._tasks(),
            self._sensor.average if settings.role.has_node else load_average(),
            tuple(self._trouble()),
            settings.role.parts,
            self._links.rows() if self._links else (),
            self._links.members() if self._links else (),
            self._engine.machine.broker_at,
            settings.configuration.cluster.name or "",
            self._sight(),
            FAULTS.count,
            self._limited.rows(asked.caller),
        )

    def _capacity(self) -> tuple[dict[str, int], dict[str, int]]:
        """Return the machine's capacity, and what of it is free, by name."""
        if not self._settings.role.has_node:
            return {}, {}
        free = self._engine.machine.node.calendar.free
        return amounts(self._settings.capacity), amounts(free)

    def _tasks(self) -> tuple[int, int, int]:
        """Return the numbers of unfinished jobs, waiting tasks and active tasks."""
        if not self._settings.role.has_home:
            return 0, 0, len(self._engine.machine.node.running())
        jobs = self._engine.machine.home.jobs.values()
        return len(jobs), sum(job.waiting for job in jobs), sum(job.active for job in jobs)

    def _trouble(self) -> list[str]:
        trouble = self._links.trouble() if self._links else []
        if self._settings.cluster is not None:
            trouble += self._settings.cluster.trouble()
        if self._launcher.welcome is None and self._settings.role.has_launcher:
            trouble.append("no launcher is connected: nothing can be started")
        unable = self._engine.machine.node.unavailable() if self._settings.role.has_node else None
        if unable is not None and unable.rule is Rule.BACKED_OFF:
            trouble.append(f"tasks are not started: the launcher cannot: {unable.had}")
        if self._sensor.problem:
            trouble.append(self._sensor.problem)
        failure = self._writer.failure
        if failure is not None:
            trouble.append(f"the store cannot be written: {failure}")
        return trouble + FAULTS.trouble() + self._launcher.trouble()

    @handles(Doctor)
    async def _doctor(self, asked: RequestContext, body: Doctor) -> DoctorReport:
        welcome = self._launcher.welcome
        enforcement = welcome.enforcement if welcome else ()
        limited = self._limited.rows(asked.caller)
        found = findings(self._settings, enforcement, self._trouble(), limited)
        return DoctorReport(tuple(found))

    @handles(ShowConfiguration)
    async def _configuration(
        self, asked: RequestContext, body: ShowConfiguration
    ) -> ConfigurationTable:
        cluster = self._settings.cluster
        trusted = tuple(
            Setting(f"trust.{row.home}", users_text(row.users), f"operator {row.operator}")
            for row in (trusted_rows(cluster) if cluster is not None else ())
        )
        return ConfigurationTable(self._settings.table + trusted)

    @handles(Down)
    async def _down(self, asked: RequestContext, body: Down) -> Done:
        self._engine.after_this_turn(lambda: self._on_down(body.kill))
        return Done()
