"""Clients over a network without a certificate: new machines, and users elsewhere.

They may ask which authority this is, join, renew, or show a token; with a token of a user they are
that user from then on. Whoever listens brings them here (`UnauthenticatedClients.serve`), TLS done.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from iriai.daemon.loop.engine import Engine
from iriai.daemon.loop.pending import Pending
from iriai.daemon.net.own_addresses import OwnAddresses
from iriai.daemon.server.connections import (
    Clients,
    ClientSession,
    Handlers,
    RequestContext,
)
from iriai.daemon.startup.settings import DaemonSettings
from iriai.identity.users.permissions import Caller, Permissions
from iriai.model.instant import Instant
from iriai.model.problem import Problem, Unreachable
from iriai.model.seed import Seed
from iriai.model.token_text import TokenKind
from iriai.policy.service.token_bucket import Rate, TokenBuckets
from iriai.policy.service.unauthenticated import source_of
from iriai.system.passwd_cache import Person
from iriai.wire.joining import (
    AskAuthority,
    Authenticate,
    Authenticated,
    AuthorityShown,
    CertificateRenewed,
    Join,
    Joined,
    RenewCertificate,
)

if TYPE_CHECKING:
    from iriai.daemon.transport.tls_stream import TlsStream
    from iriai.identity.cluster_state import ClusterState
    from iriai.identity.storage.join_tokens import IssuedToken

log = logging.getLogger(__name__)

NOBODY = Caller(Person(-1, "", "", ()), operator=False)
"""The caller before a token is shown."""
MISTAKES_MAX = 5
"""Requests that are refused before a stranger is cut off: a person errs once or twice."""

FRAME_BYTES_MAX = 16 << 20
"""Of a request that a person asks from elsewhere: a script and an environment are far smaller."""

SOUGHT_S = 1.0
"""How long other clusters have to say that a newcomer's name is one of theirs."""
RATE_OF_SOURCE = Rate(per_s=10.0, burst=300.0)
"""Requests of strangers at one address: each takes up to a millisecond of checking signatures, and
a laboratory that joins at once asks three times for each machine."""


class UnauthenticatedClients:
    """Serves clients that have shown no certificate."""

    def __init__(
        self,
        settings: DaemonSettings,
        engine: Engine,
        cluster: ClusterState,
        clients: Clients,
        users: Permissions,
        handlers: Handlers,
        members: Callable[[], tuple[Seed, ...]],
        addresses: OwnAddresses,
        seek: Callable[[str], bool] = lambda _name: False,
    ) -> None:
        """`handlers` are those of requests that a user may send from another machine.

        `members` returns some members and their addresses, this machine first. `seek` asks other
        clusters of the site for a machine, and returns whether there are any: whose certificate
        comes back is known then.
        """
        self._seek = seek
        self._settings = settings
        self._engine = engine
        self._cluster = cluster
        self._clients = clients
        self._users = users
        self._of_users = handlers
        self._members = members
        self._addresses = addresses
        self._by_token: dict[str, dict[ClientSession, None]] = {}
        self._of_source: TokenBuckets[str] = TokenBuckets(RATE_OF_SOURCE)

    def serve(self, stream: TlsStream, address: str) -> None:
        """Serve the client at `address`, a text for people; `stream` is its connection."""
        handlers: Handlers = {
            AskAuthority: partial(self._authority, address),
            Join: partial(self._join, address),
            RenewCertificate: partial(self._renew, address),
            Authenticate: partial(self._authenticate, address, stream),
        }
        self._clients.serve(stream, NOBODY, handlers, MISTAKES_MAX)

    def _check_rate(self, address: str) -> None:
        """Count a request from `address`; raise `Unreachable` if there are too many."""
        source, now_s = source_of(address), self._engine.now.steady_s
        if not self._of_source.consume(source, now_s):
            wait_s = self._of_source.wait_s(source, now_s)
            raise Unreachable(
                "too-many-requests",
                f"{address} asks to join more than {RATE_OF_SOURCE.per_s:.0f} times a second",
                f"try again in {max(1.0, wait_s):.0f} s",
            )

    def revoked(self, token_id: str) -> None:
        """Close the connections that were authenticated by a token that is now revoked."""
        for connection in list(self._by_token.get(token_id, ())):
            connection.flush()
            connection.close("its token was revoked")

    def _end_with_token(self, connection: ClientSession, entry: IssuedToken, now: Instant) -> None:
        """Close `connection` when its token expires."""
        open_now = self._by_token.setdefault(entry.id, {})
        open_now[connection] = None
        timer = asyncio.get_running_loop().call_later(
            max(0.0, entry.ends_wall_s - now.wall_s), connection.close, "its token has expired"
        )

        def closed() -> None:
            timer.cancel()
            open_now.pop(connection, None)
            if not open_now:
                self._by_token.pop(entry.id, None)

        connection.on_close.append(closed)

    async def _authority(
        self, address: str, asked: RequestContext, body: AskAuthority
    ) -> AuthorityShown:
        self._check_rate(address)
        authority = self._cluster.trust.authority.der
        return AuthorityShown(authority, self._settings.home, self._engine.now.wall_s)

    async def _join(self, address: str, asked: RequestContext, body: Join) -> Joined:
        self._check_rate(address)
        cluster = self._cluster
        try:
            now_s = self._engine.now.wall_s
            cluster.tokens.check(TokenKind.JOIN, body.token_id, body.secret, now_s, body.name)
            if self._seek(body.name):
                answered: Pending[None] = Pending()
                asyncio.get_running_loop().call_later(SOUGHT_S, answered.resolve, None)
                await answered
            admitted = cluster.require_registrar().join(
                body.token_id, body.secret, body.name, body.request, body.wall_s
            )
        except Problem as problem:
            log.warning("machine '%.40s' at %s did not join: %s", body.name, address, problem)
            raise
        log.info("machine %s at %s joined (iriai %.40s)", body.name, address, body.version)
        self._addresses.joined_at(body.address)
        document = cluster.document
        return Joined(
            admitted.certificate.der,
            cluster.trust.authority.der,
            document.raw if document else b"",
            tuple(each.document for each in cluster.trust.ejections),
            self._members(),
            admitted.bundle,
            cluster.roster.raw if cluster.roster else b"",
            tuple(each.document for each in cluster.trusted_homes),
        )

    async def _renew(
        self, address: str, asked: RequestContext, body: RenewCertificate
    ) -> CertificateRenewed:
        self._check_rate(address)
        try:
            registrar = self._cluster.require_registrar()
            certificate = registrar.renew(body.certificate, body.request, body.wall_s)
        except Problem as problem:
            log.warning("a certificate was not renewed for %s: %s", address, problem)
            raise
        log.info("the certificate of %s was renewed", certificate.subject.name)
        return CertificateRenewed(certificate.der)

    async def _authenticate(
        self, address: str, stream: TlsStream, asked: RequestContext, body: Authenticate
    ) -> Authenticated:
        self._check_rate(address)
        now = self._engine.now
        entry = self._cluster.tokens.check(TokenKind.USER, body.token_id, body.secret, now.wall_s)
        caller = self._users.caller_named(entry.user)
        asked.connection.become(caller, self._of_users)
        stream.trust(FRAME_BYTES_MAX)
        stream.bound(self._clients.hold_for(caller))
        self._end_with_token(asked.connection, entry, now)
        return Authenticated(caller.person.name, caller.operator)
