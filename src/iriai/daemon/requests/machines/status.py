"""Handlers of requests about the daemon itself, the machine and its accounts."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from iriai import __version__
from iriai.daemon.cluster.broker_rpc import BrokerRpc
from iriai.daemon.loop.engine import Engine
from iriai.daemon.loop.routes import LauncherOrder
from iriai.daemon.requests.machines.doctor import findings
from iriai.daemon.requests.machines.owner import check_owner
from iriai.daemon.server.connections import RequestContext
from iriai.daemon.server.handler_table import handles
from iriai.daemon.startup.live_configuration import LiveConfiguration
from iriai.daemon.startup.rc_run import RcRun
from iriai.daemon.startup.settings import DaemonSettings
from iriai.daemon.tasks.launcher_client import LauncherClient
from iriai.host.hardware import load_average
from iriai.host.load_sensor import LoadSensor
from iriai.jobs.views import usage_rows
from iriai.launcher.contract.messages import MeasureLowering
from iriai.model.history import Selection
from iriai.model.instant import Instant
from iriai.model.problem import UsageProblem
from iriai.reports.cluster import trust_settings
from iriai.reports.limited_users import LimitedUsers
from iriai.reports.settings import settings_table
from iriai.reports.status import own_trouble, room, share_table, work
from iriai.store.reading import Reader
from iriai.store.writer import Writer
from iriai.system.internal_errors import FAULTS
from iriai.wire.exchange import Done
from iriai.wire.reports import (
    AskUsage,
    ConfigurationTable,
    Doctor,
    DoctorReport,
    Shares,
    ShareTable,
    ShowConfiguration,
    Status,
    StatusReport,
    UsageTable,
)
from iriai.wire.requests import Down

if TYPE_CHECKING:
    from iriai.daemon.cluster.network import ClusterNetwork
    from iriai.daemon.startup.enrolment import EnrolmentRetry
    from iriai.daemon.tasks.sleep_watch import SleepWatch


class StatusHandlers:
    """Handlers of the requests about the daemon, the machine and its accounts."""

    def __init__(
        self,
        settings: DaemonSettings,
        live: LiveConfiguration,
        engine: Engine,
        launcher: LauncherClient,
        stored: Reader,
        writer: Writer,
        network: ClusterNetwork | None,
        enrolment: EnrolmentRetry | None,
        sensor: LoadSensor,
        inquirer: BrokerRpc,
        limited: LimitedUsers,
        rc: RcRun,
        sleep: SleepWatch | None,
        on_down: Callable[[bool], None],
        now: Instant,
    ) -> None:
        """`on_down` ends the daemon, with True also all tasks; `sleep` is of a machine with owner.

        `enrolment` is that of a back end that is not a member of its front end's cluster yet.
        """
        self._settings = settings
        self._live = live
        self._engine = engine
        self._launcher = launcher
        self._stored = stored
        self._writer = writer
        self._network = network
        self._enrolment = enrolment
        self._sensor = sensor
        self._inquirer = inquirer
        inquirer.answerers[Shares] = lambda _, at: share_table(
            engine.machine.broker, settings.configuration.order, at
        )
        self._limited = limited
        self._rc = rc
        self._sleep = sleep
        self._on_down = on_down
        self._began_steady_s = now.steady_s

    @handles(Shares)
    async def _shares(self, asked: RequestContext, body: Shares) -> ShareTable:
        reply = await self._inquirer.ask(body, ShareTable)
        machine, now = self._engine.machine, self._engine.now
        words = "this is what machines counted, as far as"
        note = f"{reply.missing}; {words} {machine.name} has received it"
        order = self._settings.configuration.order
        return reply.checked() or share_table(machine.without_broker(now), order, now, note)

    @handles(AskUsage)
    async def _usage(self, asked: RequestContext, body: AskUsage) -> UsageTable:
        """Sum the history in a thread, once all that happened so far is stored."""
        caller = asked.caller
        user = None if body.everyone and caller.operator else caller.person.name
        if body.by not in ("account", "job"):
            raise UsageProblem("bad-sum", f"'{body.by}' is not one of account, job")
        selection = Selection(owner=user, since_wall_s=body.since_wall_s)

        def ask() -> UsageTable:
            found = self._stored.usage(selection, by_job=body.by == "job")
            rows = usage_rows(self._settings.home, found)
            return UsageTable(rows, self._stored.history_from_wall_s())

        await self._engine.written()
        return await self._engine.answer_of_thread(ask)

    @handles(Status)
    async def _status(self, asked: RequestContext, body: Status) -> StatusReport:
        settings, machine, welcome = self._settings, self._engine.machine, self._launcher.welcome
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
            *room(machine),
            settings.configuration.machine.speed,
            *work(machine),
            self._sensor.average if settings.role.has_node else load_average(),
            tuple(self._trouble()),
            settings.role.parts,
            self._network.rows() if self._network else (),
            self._network.members() if self._network else (),
            machine.broker_at,
            settings.configuration.cluster.name or "",
            self._network.sight() if self._network else None,
            FAULTS.count,
            self._limited.rows(asked.caller),
            "" if self._rc.is_skipped else self._rc.path,
            " ".join(self._rc.trouble),
        )

    def _trouble(self) -> list[str]:
        cluster, network, launcher = self._settings.cluster, self._network, self._launcher
        is_alone = launcher.welcome is None and self._settings.role.has_launcher
        failure = self._writer.failure
        return [
            *([self._enrolment.trouble()] if self._enrolment is not None else ()),
            *(network.trouble() if network is not None else ()),
            *(cluster.trouble() if cluster is not None else ()),
            *own_trouble(self._engine.machine, self._sensor.problem, failure, is_alone=is_alone),
            *FAULTS.trouble(),
            *launcher.trouble(),
            *self._rc.trouble,
        ]

    @handles(Doctor)
    async def _doctor(self, asked: RequestContext, body: Doctor) -> DoctorReport:
        if body.measures_owner:
            check_owner(self._settings, asked.caller)
            self._engine.routes.tell(LauncherOrder(MeasureLowering()))
        welcome = self._launcher.welcome
        enforcement = welcome.enforcement if welcome else ()
        limited = self._limited.rows(asked.caller)
        trouble = self._trouble()
        sleep = None if self._sleep is None else self._sleep.problem
        found = findings(
            self._settings, self._live.now, enforcement, trouble, self._rc, limited, sleep
        )
        return DoctorReport(tuple(found))

    @handles(ShowConfiguration)
    async def _configuration(
        self, asked: RequestContext, body: ShowConfiguration
    ) -> ConfigurationTable:
        settings, cluster = self._settings, self._settings.cluster
        trusted = trust_settings(cluster) if cluster is not None else ()
        table = settings_table(self._live.now, settings.home, settings.capacity)
        return ConfigurationTable(table + trusted)

    @handles(Down)
    async def _down(self, asked: RequestContext, body: Down) -> Done:
        self._engine.after_this_turn(lambda: self._on_down(body.kill))
        return Done()
