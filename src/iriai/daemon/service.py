"""The daemon: the cores, the store, the launcher and the clients, joined in one event loop."""

from __future__ import annotations

import asyncio
import logging
import signal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import uvloop

from iriai.config.reader import Configuration
from iriai.daemon.cluster.broker_rpc import BrokerRpc
from iriai.daemon.cluster.node_drain import NodeDrain
from iriai.daemon.composition import make_machine, user_policy
from iriai.daemon.loop.culprits import Culprits
from iriai.daemon.loop.engine import Engine, FreedMemory
from iriai.daemon.loop.gc_tuning import collect_nothing_yet, keep_pauses_short
from iriai.daemon.loop.routes import CoreFailed, EpilogFailed, Routes
from iriai.daemon.net.own_addresses import OwnAddresses
from iriai.daemon.payloads.remote_payloads import RemotePayloads
from iriai.daemon.requests.cluster.authority import ClusterAuthority
from iriai.daemon.requests.cluster.handlers import ClusterHandlers
from iriai.daemon.requests.jobs.feasibility_requests import FeasibilityRequests
from iriai.daemon.requests.jobs.handlers import JobHandlers
from iriai.daemon.requests.machines.ads import AdHandlers
from iriai.daemon.requests.machines.drain import DrainHandlers
from iriai.daemon.requests.machines.nodes import NodeTables
from iriai.daemon.requests.machines.owner import OwnerHandlers
from iriai.daemon.requests.machines.queues import QueueHandlers
from iriai.daemon.requests.machines.settings import SettingHandlers
from iriai.daemon.requests.machines.status import StatusHandlers
from iriai.daemon.requests.reservations.handlers import ReservationHandlers
from iriai.daemon.server.connections import Clients, Handlers
from iriai.daemon.server.handler_table import check_right, handlers_of
from iriai.daemon.server.request_scheduling import Durability
from iriai.daemon.startup.live_configuration import LiveConfiguration
from iriai.daemon.startup.rc_run import RcRun
from iriai.daemon.startup.settings import DaemonSettings
from iriai.daemon.tasks.fence_relay import FenceRelay
from iriai.daemon.tasks.launcher_client import LauncherClient
from iriai.daemon.tasks.notifications import Notifications
from iriai.daemon.tasks.retention import Retention
from iriai.daemon.tasks.spool import Spool
from iriai.daemon.tasks.stream_relay import StreamRelay
from iriai.daemon.tasks.task_streams import TaskStreams
from iriai.host.load_sensor import COUNT_MAX_S, MEASURE_S, LoadSensor
from iriai.identity.users.permissions import Permissions
from iriai.jobs.history import JobHistory
from iriai.jobs.payloads import PayloadStore
from iriai.jobs.selection import SelectedJobs
from iriai.launcher.contract.machine_config import EPILOG
from iriai.machine.feasibility import Feasibility
from iriai.machine.operator_requests import take_request
from iriai.model.address import host_of
from iriai.model.ids import AttemptId, JobId
from iriai.model.instant import Instant
from iriai.protocol.messages.effects import (
    AttemptExited,
    LauncherEvent,
    PolicyFailed,
    StepExited,
)
from iriai.reports.limited_users import LimitedUsers
from iriai.store.sqlite import StoreFailure
from iriai.store.store import Store
from iriai.store.writer import Writer
from iriai.system.clock import now as read_clocks
from iriai.system.internal_errors import guarded
from iriai.system.passwd_cache import peer_of
from iriai.system.procfs import active_threads_below

if TYPE_CHECKING:
    from iriai.daemon.cluster.network import ClusterNetwork
    from iriai.daemon.startup.enrolment import EnrolmentRetry
    from iriai.daemon.tasks.sleep_watch import SleepWatch

log = logging.getLogger(__name__)


def serve(settings: DaemonSettings) -> int:
    """Serve clients until someone wants the end; returns the exit code."""
    collect_nothing_yet()
    store = Store.open(Path(settings.paths.database))
    try:
        return uvloop.run(_serve(settings, store))
    finally:
        store.close()


async def _serve(settings: DaemonSettings, store: Store) -> int:
    service = Service(settings, store)
    return await service.run()


class Service:
    """Everything of one daemon, from start to end."""

    def __init__(self, settings: DaemonSettings, store: Store) -> None:
        self._settings = settings
        self._has_node = settings.role.has_node
        self._store = store
        self._loop = asyncio.get_running_loop()
        self._over: asyncio.Future[int] = self._loop.create_future()
        now = read_clocks(f"{settings.home}:start")
        stored = store.load()
        self._live = LiveConfiguration(settings, stored.settings)
        self._rc = RcRun(settings.rc, is_member=settings.cluster is not None)
        machine = make_machine(settings, self._live.now, stored, now)
        self._writer = Writer(store, self._durable, self._report)
        self._limited = LimitedUsers()
        self._payloads = PayloadStore(self._text)
        routes = Routes()
        spool = Spool(settings.paths.spool)
        self._streams = TaskStreams(spool, routes)
        self._launcher = LauncherClient(
            settings.paths.launcher_socket,
            settings.configuration.identity.minimum_uid,
            self._payloads,
            self._streams,
            self._happened,
            routes,
            self._host_of,
        )
        engine = Engine(machine, self._writer, self._launcher, settings.home, routes)
        self._engine = engine
        self._live.watchers.append(self._configured)
        self._relay = StreamRelay(engine, spool, self._streams)
        self._fences = FenceRelay(engine)
        self._culprits = Culprits(settings.paths.store)
        routes.take(CoreFailed, self._blame)
        self._take_failures(routes)
        self._texts = RemotePayloads(engine)
        self._durability = Durability(engine, self._writer)
        is_member = settings.cluster is not None
        self._live_settings = SettingHandlers(
            self._live, engine, self._durability, self._writer, is_member=is_member
        )
        self._drain = NodeDrain(engine, self._durability)
        cluster = settings.cluster
        front_end = cluster.front_end if cluster is not None else ""
        self._inquirer = BrokerRpc(engine, self._drain, front_end, is_member=is_member)
        load_file = settings.configuration.machine.load_file
        self._sensor = LoadSensor(
            load_file, engine.report, self._cpus_of, self._active_threads, now.steady_s
        )
        self._history = JobHistory(settings.home, settings.paths.spool, store, engine.soon)
        self._addresses = OwnAddresses(settings)
        self._network = self._make_network()
        if self._network is not None:
            machine.clock_of = self._network.mesh.core.clock_of
        self._enrolment = self._retry_enrolment()
        users = Permissions(settings.configuration, settings.single_uid)
        self._jobs = self._make_jobs(users)
        self._retention = self._make_retention()
        self._sleep = self._make_sleep_watch()
        self._cluster = self._make_authority(users)
        handlers = self._handlers(users, now)
        self._clients = Clients(
            engine,
            lambda connection: users.caller(peer_of(connection).uid),
            handlers,
            settings,
            partial(check_right, settings),
        )
        self._limited.watch(self._clients.limits())
        self._cluster.begin(self._clients, handlers)
        machine.begin(now)

    def _host_of(self, machine: str) -> str:
        """Return the address at which the ranks of a parallel task reach a machine."""
        if machine == self._settings.home:
            known = self._addresses.current()
        else:
            known = self._network.book.addresses(machine) if self._network is not None else ()
        return host_of(known) or machine

    def _make_network(self) -> ClusterNetwork | None:
        """What a member of a cluster has: links with the others over the network."""
        if self._settings.cluster is None:
            return None
        from iriai.daemon.cluster.network import ClusterNetwork

        return ClusterNetwork(
            self._settings,
            self._settings.cluster,
            self._engine,
            self._payloads,
            self._texts,
            self._inquirer,
            self._addresses,
        )

    def _make_authority(self, users: Permissions) -> ClusterAuthority:
        """Return what takes in the cluster's documents."""
        return ClusterAuthority(
            self._settings,
            self._engine,
            users,
            self._addresses,
            self._network,
            self._restart,
            self._live,
            self._inquirer,
        )

    def _retry_enrolment(self) -> EnrolmentRetry | None:
        """What a back end has until it is a member of its front end's cluster."""
        settings = self._settings
        if settings.unenrolled is None:
            return None
        from iriai.daemon.startup.enrolment import EnrolmentRetry

        return EnrolmentRetry(settings.role.front, settings.unenrolled, self._restart)

    def _make_jobs(self, users: Permissions) -> JobHandlers | None:
        """What a machine with a home has: jobs, and whoever waits for news of them."""
        if not self._settings.role.has_home:
            return None
        settings, engine = self._settings, self._engine
        feasibility = self._feasibility = Feasibility(
            engine.machine,
            engine.machine.node.settings.given if settings.role.has_node else None,
            settings.configuration.order.running_cap_cpus,
        )
        jobs = JobHandlers(
            settings,
            self._live,
            engine,
            users,
            self._payloads,
            FeasibilityRequests(settings, engine, self._inquirer, feasibility),
            self._history,
            self._durability,
            self._relay,
            user_policy(settings).judge,
        )
        self._limited.watch(jobs.limits())
        return jobs

    def _handlers(self, users: Permissions, now: Instant) -> Handlers:
        """What this machine answers."""
        settings, engine, jobs = self._settings, self._engine, self._jobs
        seen = self._network.seen if self._network is not None else list
        reports = StatusHandlers(
            settings,
            self._live,
            engine,
            self._launcher,
            self._store,
            self._writer,
            self._network,
            self._enrolment,
            self._sensor,
            self._inquirer,
            self._limited,
            self._rc,
            self._sleep,
            self._down,
            now,
        )
        table = NodeTables(
            settings.configuration.cluster.name or "",
            engine,
            self._sensor,
            self._inquirer,
            seen,
        )
        return handlers_of(
            *((jobs, jobs.changes, jobs.streams, jobs.steps) if jobs is not None else ()),
            reports,
            DrainHandlers(settings, engine, self._drain, self._inquirer, seen),
            table,
            OwnerHandlers(settings, engine, self._durability),
            QueueHandlers(self._live, engine, self._inquirer),
            self._live_settings,
            ClusterHandlers(settings, engine, self._cluster),
            AdHandlers(engine, users, self._inquirer),
            ReservationHandlers(
                *(settings.home, engine, users, self._durability, self._inquirer),
                settings.configuration.jobs.sendmail,
            ),
            has_home=settings.role.has_home,
        )

    def _happened(self, event: LauncherEvent) -> None:
        """The launcher reports what concerns the attempts of this machine's node."""
        if self._has_node:
            self._sensor.on_event(event, read_clocks("load").steady_s)
        if type(event) is AttemptExited and event.attempt.home != self._settings.home:
            self._engine.soon(partial(self._relay.exited, event.attempt))
        elif type(event) is StepExited and event.step.home != self._settings.home:
            self._engine.soon(partial(self._relay.exited, event.step))

    def _make_sleep_watch(self) -> SleepWatch | None:
        """What a machine with an owner has: its tasks leave before it sleeps."""
        owner = self._engine.machine.node.owner if self._has_node else None
        if owner is None:
            return None
        from iriai.daemon.tasks.sleep_watch import SleepWatch

        return SleepWatch(self._engine.event, lambda: owner.is_left)

    def _make_retention(self) -> Retention | None:
        """Tell users that their jobs have finished, and forget these in the end."""
        if not self._settings.role.has_home:
            return None
        home, engine = self._settings.home, self._engine
        Notifications(
            home,
            engine,
            self._writer,
            self._store,
            lambda number: self._history.outcome(SelectedJobs(JobId(home, number))),
            self._payloads,
            self._launcher,
            self._settings.configuration.jobs.sendmail,
        )
        return Retention(engine, self._writer, self._store, self._payloads, self._settings)

    def _text(self, digest: str) -> bytes:
        """An environment, script or input: of a task of another machine, or of a job of ours."""
        try:
            return self._texts.get(digest)
        except KeyError:
            return self._store.payload(digest)

    async def run(self) -> int:
        """Serve until the end; returns the exit code."""
        keep_pauses_short()
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, self._end, 0)
        self._loop.set_exception_handler(self._crashed)
        self._take_kept_drain()
        self._live_settings.run(self._rc)
        self._engine.turn()
        if self._retention is not None:
            self._retention.begin()
        if self._sleep is not None:
            self._sleep.begin()
        if self._jobs is not None:
            FreedMemory(self._engine, self._jobs.held).begin()
        if self._settings.role.has_node:
            self._measure_load()
        if self._settings.role.has_launcher:
            self._launcher.connect()
        if self._network is not None:
            for machine, for_s, words in self._culprits.blocked(read_clocks("culprits").wall_s):
                self._network.mesh.block(machine, words, for_s)
            self._network.begin()
        listener = self._settings.listener
        listener.setblocking(False)
        self._listen()
        self._settings.announce_started()
        try:
            return await self._over
        finally:
            self._loop.remove_reader(listener.fileno())
            for each in (self._network, self._enrolment, self._sleep):
                if each is not None:
                    each.close()
            self._cluster.close()
            self._clients.close()
            self._inquirer.close()
            self._launcher.close()
            self._relay.close()
            self._streams.close()
            self._close_writer()

    def _take_kept_drain(self) -> None:
        """Drain or resume in the first turn, as it was asked while no daemon ran."""
        kept = self._settings.kept_drain
        if kept is None:
            return

        def change(now: Instant) -> None:
            asked = kept.request
            take_request(self._engine.machine.node, asked.reason, asked.by, asked.asked_wall_s, now)
            self._engine.after_this_turn(kept.take)

        self._engine.request(change)

    def _listen(self) -> None:
        listener = self._settings.listener
        self._loop.add_reader(listener.fileno(), guarded("an arrival", self._accept))

    def _accept(self) -> None:
        listener = self._settings.listener
        rest_s = self._clients.accept(listener)
        if rest_s:
            self._loop.remove_reader(listener.fileno())
            self._loop.call_later(rest_s, self._listen)

    def _cpus_of(self, attempt: AttemptId) -> int:
        """Return the cpus of what runs; 1, if no claim of it is known."""
        try:
            return self._engine.machine.node.held(attempt).claim.resources.cpus
        except KeyError:
            return 1

    def _active_threads(self) -> int:
        """Return how many threads of what the launcher has started run or want to."""
        welcome = self._launcher.welcome
        return 0 if welcome is None else active_threads_below(welcome.pid, COUNT_MAX_S)

    def _measure_load(self) -> None:
        """Now and again and again."""
        self._sensor.measure(read_clocks("load").steady_s)
        self._loop.call_later(MEASURE_S, self._measure_load)

    def _close_writer(self) -> None:
        try:
            self._writer.close()
        except StoreFailure as failure:  # nobody was told of what is lost with it
            log.error("the last records could not be stored: %s", failure)  # noqa: TRY400

    def _end(self, code: int) -> None:
        if not self._over.done():
            self._over.set_result(code)

    def _down(self, kill: bool) -> None:
        """Someone wants the end: once all is told and stored."""
        self._settings.announce_down(kill=kill)
        if kill and self._settings.role.has_launcher:
            self._launcher.shut_down(self._end_after_kill)
        else:
            self._loop.call_soon(self._end, 0)

    def _configured(self, configuration: Configuration) -> None:
        """Tell the broker, which may start other tasks now."""
        machine = self._engine.machine
        self._engine.request(lambda _: machine.configured(configuration))
        if self._jobs is not None and self._has_node:
            self._engine.request(lambda _: self._feasibility.gives(machine.node.settings.given))

    def _restart(self) -> None:
        """Exit because the configuration changed on disk; the supervisor restarts us with it."""
        self._settings.announce_again()
        self._loop.call_soon(self._end, 0)

    def _end_after_kill(self) -> None:
        """The launcher has killed, reported and gone; a last turn stores what it reported."""
        self._loop.call_later(0.05, self._end, 0)

    def _blame(self, failed: CoreFailed) -> None:
        """A core failed over what another machine said: not again when the daemon is back."""
        self._culprits.blame(*failed, read_clocks("culprits").wall_s)

    def _crashed(self, loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        """An error of ours leaves the cores in doubt: end, and start again from the store."""
        error = context.get("exception")
        message = str(context.get("message"))
        self._fail(error if isinstance(error, BaseException) else RuntimeError(message))

    def _durable(self, sequence: int) -> None:
        """In the writer's thread."""
        self._loop.call_soon_threadsafe(self._engine.durable, sequence)

    def _report(self, failure: StoreFailure | None) -> None:
        """In the writer's thread: writing began to fail, or works again."""
        if failure is None:
            log.warning("the store can be written again")
            return
        log.error("the store cannot be written: %s", failure)
        if failure.passing:
            self._loop.call_soon_threadsafe(self._engine.request, self._durability.refuse)
        else:
            self._loop.call_soon_threadsafe(self._fail, failure)

    def _fail(self, error: BaseException) -> None:
        """End with an error: the supervisor starts the daemon again, from what is stored."""
        if not self._over.done():
            self._over.set_exception(error)

    def _take_failures(self, routes: Routes) -> None:
        routes.take(EpilogFailed, self._epilog_failed)
        routes.take(PolicyFailed, self._policy_failed)

    def _policy_failed(self, failed: PolicyFailed) -> None:
        log.warning("the policy erred, and the built-in order goes on: %s", failed.message)

    def _epilog_failed(self, failed: EpilogFailed) -> None:
        """The machine may not be fit for other tasks: nothing more is started here."""

        def drain(now: Instant) -> None:
            node = self._engine.machine.node
            if node.drained is None:
                node.drain(failed.message, EPILOG, now)

        self._engine.request(drain)
