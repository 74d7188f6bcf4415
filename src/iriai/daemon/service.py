"""The daemon: the cores, the store, the launcher and the clients, joined in one event loop."""

from __future__ import annotations

import asyncio
import logging
import signal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import uvloop

from iriai.daemon.cluster.broker_rpc import BrokerRpc
from iriai.daemon.cluster.seen_member import SeenMember
from iriai.daemon.composition import make_machine
from iriai.daemon.host.load_sensor import MEASURE_S, LoadSensor
from iriai.daemon.loop.culprits import Culprits
from iriai.daemon.loop.engine import Engine, FreedMemory
from iriai.daemon.loop.gc_tuning import keep_pauses_short
from iriai.daemon.net.local_links import LocalLinks
from iriai.daemon.net.local_uplink import LocalUplink
from iriai.daemon.payloads.payload_store import PassedDescriptors, PayloadStore
from iriai.daemon.payloads.remote_payloads import RemotePayloads
from iriai.daemon.requests.cluster.authority import ClusterAuthority
from iriai.daemon.requests.cluster.handlers import ClusterHandlers
from iriai.daemon.requests.jobs.feasibility import Feasibility
from iriai.daemon.requests.jobs.feasibility_requests import FeasibilityRequests
from iriai.daemon.requests.jobs.handlers import JobHandlers
from iriai.daemon.requests.jobs.history import JobHistory
from iriai.daemon.requests.jobs.selection import SelectedJobs
from iriai.daemon.requests.jobs.submission import Submissions
from iriai.daemon.requests.machines.ads import AdHandlers
from iriai.daemon.requests.machines.drain import DrainHandlers
from iriai.daemon.requests.machines.nodes import NodeTables
from iriai.daemon.requests.machines.status import StatusHandlers
from iriai.daemon.server.connections import Clients
from iriai.daemon.server.handler_table import check_right, handlers_of
from iriai.daemon.server.limited_users import LimitedUsers
from iriai.daemon.server.request_scheduling import Durability
from iriai.daemon.startup.settings import DaemonSettings
from iriai.daemon.storage.retention import Retention
from iriai.daemon.tasks.launcher_client import LauncherClient
from iriai.daemon.tasks.notifications import Notifications
from iriai.identity.users.permissions import Permissions
from iriai.launcher.contract.machine_config import EPILOG
from iriai.model.ids import AttemptId, JobId
from iriai.model.instant import Instant
from iriai.model.state import EndCause
from iriai.model.usage import Usage
from iriai.protocol.messages.effects import AttemptExited
from iriai.store.sqlite import StoreFailure
from iriai.store.store import Store
from iriai.store.writer import Writer
from iriai.system.clock import now as read_clocks
from iriai.system.internal_errors import guarded
from iriai.system.passwd_cache import peer_of
from iriai.wire.reports import ClusterSight

if TYPE_CHECKING:
    from iriai.daemon.cluster.network import ClusterNetwork
    from iriai.identity.cluster_state import ClusterState

log = logging.getLogger(__name__)

GONE = "the terminal or standard input of the job is gone"


def serve(settings: DaemonSettings) -> int:
    """Serve clients until someone wants the end; returns the exit code."""
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
        self._store = store
        self._loop = asyncio.get_running_loop()
        self._over: asyncio.Future[int] = self._loop.create_future()
        now = read_clocks(f"{settings.home}:start")
        machine = make_machine(settings, store.load(), now, self._back_ends)
        self._writer = Writer(store, self._durable, self._report)
        self._links: LocalLinks | None = None
        self._jobs: JobHandlers | None = None
        self._uplink: LocalUplink | None = None
        self._network: ClusterNetwork | None = None
        self._retention: Retention | None = None
        self._descriptors = PassedDescriptors(settings.configuration.limits.descriptors_per_user)
        self._limited = LimitedUsers()
        self._payloads = PayloadStore(self._text)
        self._launcher = LauncherClient(
            settings.paths.launcher_socket,
            settings.configuration.identity.minimum_uid,
            self._payloads,
            self._descriptors,
            self._descriptor_changed,
        )
        self._launcher.home = lambda: settings.home
        self._engine = Engine(machine, self._writer, self._launcher, settings.home)
        self._culprits = Culprits(settings.paths.store)
        self._engine.on_culprit = self._blame
        self._texts = RemotePayloads(self._engine)
        self._inquirer = BrokerRpc(self._engine)
        load_file = settings.configuration.machine.load_file
        self._sensor = LoadSensor(load_file, now.steady_s, self._engine.event)
        if settings.role.has_node:
            self._launcher.on_event = self._sensor.on_event
        self._launcher.on_epilog_failed = self._epilog_failed
        self._history = JobHistory(settings.home, settings.paths.spool, store, self._engine.soon)
        self._durability = Durability(self._engine, self._writer)
        users = Permissions(settings.configuration, settings.single_uid)
        owners = self._home(users) if settings.role.has_home else []
        if not settings.role.has_home:
            self._follow_front_end()
        self._cluster = ClusterAuthority(settings, self._engine, users, self._restart)
        self._join(settings.cluster)
        owners += self._of_every_machine(now)
        owners.append(ClusterHandlers(settings, self._engine, self._cluster))
        owners.append(AdHandlers(settings, self._engine, users, self._inquirer))
        handlers = handlers_of(*owners, has_home=settings.role.has_home)
        self._clients = Clients(
            self._engine,
            lambda connection: users.caller(peer_of(connection).uid),
            handlers,
            f"{settings.home} has {settings.role}",
            settings.configuration.limits,
            partial(check_right, settings),
        )
        self._limited.watch(self._clients.limits())
        self._cluster.begin(self._clients, handlers)
        machine.begin(now)

    def _home(self, users: Permissions) -> list[object]:
        """What a machine with a home has: jobs, back ends, and whoever waits for news of jobs."""
        settings, engine = self._settings, self._engine
        links = self._links = LocalLinks(
            settings, engine, self._payloads, self._descriptors, engine.machine.home.unsettled_on
        )
        feasibility = Feasibility(settings, engine, links)
        submissions = Submissions(settings, users, self._payloads)
        fits = FeasibilityRequests(settings, engine, self._inquirer, feasibility)
        jobs = self._jobs = JobHandlers(
            settings, engine, submissions, fits, self._descriptors, self._history, self._durability
        )
        self._limited.watch(jobs.limits())
        engine.on_job_finished = jobs.job_finished
        engine.on_changed = jobs.waits.job_changed
        self._notify_users()
        engine.carrier = links
        return [jobs, jobs.changes, jobs.outputs, links]

    def _follow_front_end(self) -> None:
        """What a machine without a home has instead."""
        self._uplink = LocalUplink(
            self._settings, self._engine, self._payloads, self._descriptors, self._texts
        )
        self._engine.carrier = self._uplink
        self._launcher.spool = lambda: self._uplink.spool if self._uplink else ""
        self._launcher.home = lambda: self._uplink.front if self._uplink else ""

    def _join(self, cluster: ClusterState | None) -> None:
        """What a member of a cluster has: links with the others over the network."""
        if cluster is None or self._links is None:
            return
        from iriai.daemon.cluster.network import ClusterNetwork

        network = self._network = self._cluster.network = ClusterNetwork(
            self._settings,
            cluster,
            self._engine,
            self._payloads,
            self._texts,
            self._links,
            self._cluster.receive_document,
            self._inquirer,
            self._cluster.addresses,
        )
        self._engine.carrier = network
        if self._jobs is not None:
            self._jobs.outputs.copies = network.copies

    def _of_every_machine(self, now: Instant) -> list[object]:
        """What every machine answers."""
        settings, engine = self._settings, self._engine
        reports = StatusHandlers(
            settings,
            engine,
            self._launcher,
            self._history,
            self._writer,
            self._network or self._links or self._uplink,
            self._sensor,
            self._inquirer,
            self._sight,
            self._limited,
            self._down,
            now,
        )
        nodes = DrainHandlers(settings, engine, self._durability, self._links)
        seen = self._network.seen if self._network is not None else list[SeenMember]
        table = NodeTables(settings, engine, self._links, self._sensor, self._inquirer, seen)
        if self._uplink is not None:
            self._uplink.on_bid = nodes.bid
        return [reports, nodes, table]

    def _sight(self) -> ClusterSight | None:
        return self._network.sight() if self._network is not None else None

    def _notify_users(self) -> None:
        """Tell users that their jobs have finished, and forget these in the end."""
        home, jobs = self._settings.home, self._settings.configuration.jobs
        notices = Notifications(
            home,
            self._engine,
            self._writer,
            self._store,
            lambda number: self._history.outcome(SelectedJobs(JobId(home, number))),
            self._payloads,
            self._launcher,
            jobs.sendmail,
        )
        self._engine.on_notice = notices.job_finished
        self._launcher.on_notice_ended = notices.ended
        self._launcher.on_attached = notices.attached
        self._retention = Retention(
            self._engine,
            self._writer,
            self._store,
            self._payloads,
            self._settings,
        )

    def _back_ends(self) -> list[str]:
        """Machines of this host that were ever linked."""
        return self._links.known.names() if self._links is not None else []

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
        self._engine.turn()
        if self._retention is not None:
            self._retention.begin()
        if self._jobs is not None:
            FreedMemory(self._engine, self._jobs.held).begin()
        if self._settings.role.has_node:
            self._measure_load()
        if self._settings.role.has_launcher:
            self._launcher.connect()
        if self._uplink is not None:
            self._uplink.connect()
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
            for links in (self._network, self._links, self._uplink):
                if links is not None:
                    links.close()
            self._cluster.close()
            self._clients.close()
            self._inquirer.close()
            self._launcher.close()
            self._close_writer()

    def _take_kept_drain(self) -> None:
        """Drain or resume in the first turn, as it was asked while no daemon ran."""
        kept = self._settings.kept_drain
        if kept is None:
            return

        def change(now: Instant) -> None:
            asked = kept.request
            self._engine.machine.node.take_request(asked.reason, asked.by, asked.asked_wall_s, now)
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

    def _restart(self) -> None:
        """Exit because the configuration changed on disk; the supervisor restarts us with it."""
        self._settings.announce_again()
        self._loop.call_soon(self._end, 0)

    def _end_after_kill(self) -> None:
        """The launcher has killed, reported and gone; a last turn stores what it reported."""
        self._loop.call_later(0.05, self._end, 0)

    def _blame(self, machine: str, kind: str, error: Exception) -> None:
        """A core failed over what another machine said: not again when the daemon is back."""
        self._culprits.blame(machine, kind, error, read_clocks("culprits").wall_s)

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

    def _epilog_failed(self, message: str) -> None:
        """The machine may not be fit for other tasks: nothing more is started here."""

        def drain(now: Instant) -> None:
            node = self._engine.machine.node
            if node.drained is None:
                node.drain(message, EPILOG, now)

        self._engine.request(drain)

    def _descriptor_changed(self, attempt: AttemptId) -> None:
        """An attempt cannot start: what its client passed did not outlive an earlier daemon."""
        now = read_clocks("descriptor")
        self._engine.event(
            AttemptExited(
                attempt, EndCause.LOST, None, None, Usage(), now.wall_s, now.wall_s, 0.0, GONE
            )
        )
