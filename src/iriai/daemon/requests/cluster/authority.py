"""The cluster's documents and certificates in the daemon: permissions, intake and renewal."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from iriai.daemon.cluster.broker_rpc import BrokerRpc
from iriai.daemon.loop.engine import Engine
from iriai.daemon.loop.routes import DocumentArrived
from iriai.daemon.net.own_addresses import OwnAddresses
from iriai.daemon.requests.cluster.unauthenticated import UnauthenticatedClients
from iriai.daemon.server.connections import Clients, Handlers
from iriai.daemon.startup.live_configuration import LiveConfiguration
from iriai.daemon.startup.settings import DaemonSettings
from iriai.identity.users.permissions import Permissions
from iriai.model.instant import Instant
from iriai.model.problem import Problem
from iriai.model.seed import Seed
from iriai.protocol.messages.effects import Part
from iriai.wire.inquiries import DocumentInForce, OfferDocument

if TYPE_CHECKING:
    from iriai.daemon.cluster.network import ClusterNetwork
    from iriai.identity.cluster_state import ClusterState
    from iriai.identity.documents.signed_document import DocumentKind

log = logging.getLogger(__name__)

LOOK_S = 3600.0
"""Between two checks whether the certificate is to be renewed; it holds for half a year."""


class ClusterAuthority:
    """The cluster's documents and certificates; outside of a cluster, only joining is possible."""

    def __init__(
        self,
        settings: DaemonSettings,
        engine: Engine,
        users: Permissions,
        addresses: OwnAddresses,
        network: ClusterNetwork | None,
        restart: Callable[[], None],
        live: LiveConfiguration,
        inquirer: BrokerRpc,
    ) -> None:
        """`restart` ends the daemon, to be started again with what is on disk then.

        `live` is the configuration in force, which some new ones only change.
        `network` is None outside of a cluster, or on a back end.
        """
        self.restart = restart
        self._live = live
        self._inquirer = inquirer
        if settings.cluster is not None:
            inquirer.answerers[OfferDocument] = partial(self._offered, settings.cluster)
        self.addresses = addresses
        """Where this machine may be reached."""
        self.network = network
        engine.routes.take(DocumentArrived, self._receive_document)
        self.unauthenticated: UnauthenticatedClients | None = None
        """Serves connections whose peer shows no certificate; None outside of a cluster."""
        self._settings = settings
        self._engine = engine
        self._users = users
        self._looking: asyncio.TimerHandle | None = None

    def begin(self, clients: Clients, handlers: Handlers) -> None:
        """Serve clients without a certificate; with a user's token they may use `handlers`."""
        state = self._settings.cluster
        if state is None:
            return
        of_users = {kind: handlers[kind] for kind in handlers if not kind.is_local}
        self.unauthenticated = UnauthenticatedClients(
            self._settings,
            self._engine,
            state,
            clients,
            self._users,
            of_users,
            self._known_members,
            self.addresses,
            self._seek,
        )
        if self.network is not None:  # newcomers and users elsewhere connect where members do
            from iriai.daemon.net.acceptor import AnonymousArrived

            serve = self.unauthenticated.serve
            self._engine.routes.take(AnonymousArrived, lambda arrived: serve(*arrived))
        self._poll(state)

    def _seek(self, machine: str) -> bool:
        return self.network is not None and self.network.seek(machine)

    def close(self) -> None:
        """Stop checking the certificate."""
        if self._looking is not None:
            self._looking.cancel()

    def _receive_document(self, arrived: DocumentArrived) -> None:
        """Store an operator's document from another machine, which is not trusted."""
        kind, raw, source = arrived
        state = self._settings.cluster
        if state is None:
            return
        try:
            is_news = state.receive_document(kind, raw)
        except Problem as problem:
            log.warning("a document from %s was refused: %s", source, problem)
            state.refused_document(f"from {source}: {problem}")
            return
        if is_news:
            self.document_received(kind)

    async def publish_configuration(self, state: ClusterState, raw: bytes) -> bool:
        """Take a configuration from a client, the broker's machine first; whether it is in force.

        Raises a `Problem` if it is wrong.
        """
        if state.is_in_force(raw):
            return False
        reply = await self._inquirer.ask(OfferDocument(raw), DocumentInForce)
        problem: Problem | str | None = reply.problem or reply.missing
        if reply.answer is not None:
            try:
                if state.receive_configuration(reply.answer.document):
                    self._apply_after_turn()
            except Problem as refused:  # what the broker says costs nobody else anything
                problem = refused
        if problem:
            log.warning("the broker's machine did not take the next document: %s", problem)
        if state.receive_next(raw):
            self._apply_after_turn()
        return state.is_in_force(raw)

    def _offered(
        self, state: ClusterState, question: OfferDocument, _now: Instant
    ) -> DocumentInForce:
        """Take a configuration that was published elsewhere, if it is the next one."""
        if state.receive_next(question.document):
            self._apply_after_turn()
        return DocumentInForce(state.document.raw if state.document else question.document)

    def _apply_after_turn(self) -> None:
        from iriai.identity.documents.signed_document import DocumentKind

        self._engine.after_this_turn(lambda: self.document_received(DocumentKind.CONFIGURATION))

    def document_received(self, kind: DocumentKind) -> None:
        """Apply a new document of an operator, which is stored, and send it to other members."""
        state = self._settings.cluster
        document = state.document if state is not None else None
        if kind == "configuration" and document is not None:
            log.info("%s of operator %s arrived", document.words(), document.operator)
        else:
            log.info("a new %s of an operator arrived", kind)
        if self.network is not None:
            self.network.spread()
            if kind == "ejection":
                self.network.mesh.trust_changed()
        if kind in ("ejection", "trust"):
            self.rules_changed()
        elif kind == "configuration" and not self._live.adopt_document():
            self.restart()

    def restarts_for(self, kind: DocumentKind) -> bool:
        """Return whether a new start is needed for a document that is stored."""
        return kind == "configuration" and self._live.coming() is None

    def rules_changed(self) -> None:
        """Tell the node that it may run tasks of other users or homes than before."""
        machine = self._engine.machine
        if Part.NODE in machine.parts:
            self._engine.request(lambda _: machine.node.rules_changed())

    def _known_members(self) -> tuple[Seed, ...]:
        """Return this machine and the members that are online, with their addresses."""
        present = self.network.member.present() if self.network is not None else []
        others = (Seed(each.name, each.addresses, each.is_outward_only) for each in present)
        return (Seed(self._settings.home, self.addresses.current()), *others)

    # --- renewal ---------------------------------------------------------------------------------

    def _poll(self, state: ClusterState) -> None:
        if state.wants_renewal() and state.registrar is not None:
            state.renew_by_itself()
        elif state.wants_renewal():
            seeds = (*self._known_members()[1:], *state.seeds)
            addresses = [address for seed in seeds for address in seed.addresses]
            self._engine.in_thread(lambda: renew(state, addresses), _tell_renewed)
        loop = asyncio.get_running_loop()
        self._looking = loop.call_later(LOOK_S, self._poll, state)


def renew(state: ClusterState, addresses: list[str]) -> str:
    """Renew the certificate of this machine at the first address that does; return where.

    Blocks, so call it in a thread. The file is replaced atomically. Raises a `Problem`.
    """
    problems = []
    for address in dict.fromkeys(addresses):
        try:
            state.renewed(_ask_to_renew(state, address))
        except Problem as problem:
            problems.append(f"{address}: {problem}")
        else:
            return f"at {address}"
    raise Problem("not-renewed", "; ".join(problems) or "no member is known that could renew it")


def _ask_to_renew(state: ClusterState, address: str) -> bytes:
    from iriai.client.remote import reach_member
    from iriai.wire.joining import RenewCertificate

    identity = state.identity
    channel = reach_member(identity.authority, address)
    try:
        body = RenewCertificate(identity.certificate.der, identity.request(), time.time())
        return channel.ask(body).certificate
    finally:
        channel.close()


def _tell_renewed(result: asyncio.Future[str]) -> None:
    try:
        log.info("the certificate of this machine was renewed %s", result.result())
    except Problem as problem:
        log.warning("the certificate of this machine was not renewed: %s", problem)
