"""The cluster's documents and certificates in the daemon: permissions, intake and renewal."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from iriai.daemon.loop.engine import Engine
from iriai.daemon.requests.cluster.handlers import ClusterHandlers
from iriai.daemon.requests.cluster.unauthenticated import UnauthenticatedClients
from iriai.daemon.server.connections import Clients, Handlers
from iriai.daemon.startup.settings import DaemonSettings
from iriai.identity.users.permissions import Permissions
from iriai.model.problem import Problem
from iriai.protocol.messages.effects import Part
from iriai.wire.joining import Seed

if TYPE_CHECKING:
    from iriai.identity.cluster_state import ClusterState
    from iriai.identity.documents.signed_document import DocumentKind

log = logging.getLogger(__name__)

LOOK_S = 3600.0
"""How often a machine looks whether its certificate wants to be renewed: it has half a year."""


class ClusterAuthority:
    """The cluster's documents and certificates; outside of a cluster, only joining is possible."""

    def __init__(
        self,
        settings: DaemonSettings,
        engine: Engine,
        users: Permissions,
        on_begin_anew: Callable[[], None],
    ) -> None:
        """`on_begin_anew` ends the daemon, to be started again with what is on disk then."""
        self.on_ejected: Callable[[], None] = lambda: None
        """Called when a machine is refused that was not before: links with it are to be closed."""
        self.on_leave: Callable[[], None] = lambda: None
        """Called when the machine is about to leave the cluster, to tell the others."""
        self.on_spread: Callable[[], None] = lambda: None
        """Called when there is a document of an operator that others should have; see
        `ClusterState.spread`."""
        self.members: Callable[[], tuple[Seed, ...]] = lambda: ()
        """Members that can be found, for newcomers and for renewal."""
        self.unauthenticated: UnauthenticatedClients | None = None
        """Whom to bring connections to whose peer shows no certificate."""
        self._settings = settings
        self._engine = engine
        self._users = users
        self._on_begin_anew = on_begin_anew
        self._looking: asyncio.TimerHandle | None = None
        self._answers = ClusterHandlers(
            settings,
            engine,
            on_begin_anew,
            self.document_received,
            self._leave,
            self._rules_changed,
        )

    @property
    def state(self) -> ClusterState | None:
        """What the machine holds of its cluster."""
        return self._settings.cluster

    def handlers(self) -> Handlers:
        """Of requests about the cluster."""
        return self._answers.handlers()

    def notice_by(self, noticed: Callable[[], tuple[list[str], list[str]]]) -> None:
        """See `ClusterHandlers.noticed`."""
        self._answers.noticed = noticed

    def begin(self, clients: Clients, handlers: Handlers) -> None:
        """Serve strangers as `clients`; with a token they may ask for what has `handlers`."""
        if self.state is None:
            return
        of_users = {kind: handlers[kind] for kind in handlers if not kind.is_local}
        self.unauthenticated = UnauthenticatedClients(
            self._settings, self.state, clients, self._users, of_users, self._known_members
        )
        self._answers.on_revoked = self.unauthenticated.revoked
        self._poll(self.state)

    def close(self) -> None:
        """Look after nothing any more."""
        if self._looking is not None:
            self._looking.cancel()

    def receive_document(self, kind: DocumentKind, raw: bytes, source: str) -> None:
        """A document of an operator came from the machine `source`, which need not be trusted."""
        state = self.state
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

    def document_received(self, kind: DocumentKind) -> None:
        """An operator's document was new, and is kept."""
        log.info("a new %s of an operator arrived", kind)
        self.on_spread()
        if kind == "ejection":
            self.on_ejected()
            self._rules_changed()
        elif kind == "trust":
            self._rules_changed()
        elif kind == "configuration":
            self._on_begin_anew()

    def _rules_changed(self) -> None:
        """The machine may run tasks of others than before: the broker is to try."""
        machine = self._engine.machine
        if Part.NODE in machine.parts:
            self._engine.request(lambda _: machine.node.rules_changed())

    def _leave(self) -> None:
        self.on_leave()

    def _known_members(self) -> tuple[Seed, ...]:
        own = Seed(self._settings.home, (self._settings.address,))
        return (own, *(each for each in self.members() if each.name != own.name))

    # --- renewal ---------------------------------------------------------------------------------

    def _poll(self, state: ClusterState) -> None:
        if state.wants_renewal() and state.registrar is not None:
            state.renew_by_itself()
        elif state.wants_renewal():
            addresses = [each for member in self._renewers(state) for each in member]
            self._engine.in_thread(lambda: renew(state, addresses), _tell_renewed)
        loop = asyncio.get_running_loop()
        self._looking = loop.call_later(LOOK_S, self._poll, state)

    def _renewers(self, state: ClusterState) -> list[tuple[str, ...]]:
        seeds = [seed.addresses for seed in state.seeds]
        return [*(each.addresses for each in self.members()), *seeds]


def renew(state: ClusterState, addresses: list[str]) -> str:
    """Renew the certificate of this machine, at the first address that does so; says how it went.

    Blocks; for a thread. The file is replaced whole, so that whoever reads it meanwhile is right.
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
    conversation = reach_member(identity.authority, address)
    try:
        body = RenewCertificate(identity.certificate.der, identity.request(), time.time())
        return conversation.ask(body).certificate
    finally:
        conversation.close()


def _tell_renewed(result: asyncio.Future[str]) -> None:
    problem = result.exception()
    if problem is None:
        log.info("the certificate of this machine was renewed %s", result.result())
    elif isinstance(problem, Problem):
        log.warning("the certificate of this machine was not renewed: %s", problem)
    else:
        raise problem
