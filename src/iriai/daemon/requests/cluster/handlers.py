"""Handlers of requests about the cluster: tokens, documents of operators, joining, leaving."""

from __future__ import annotations

import logging
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

from iriai.daemon.loop.engine import Engine
from iriai.daemon.server.connections import RequestContext
from iriai.daemon.server.handler_table import handles
from iriai.daemon.startup.settings import DaemonSettings
from iriai.identity.users.permissions import user_of_token
from iriai.model.problem import Refused, UsageProblem
from iriai.model.token_text import RANDOM_BYTES, Token, TokenKind, token_kind
from iriai.reports.cluster import cluster_report, token_table
from iriai.wire.exchange import Done
from iriai.wire.joining import (
    NOTHING_TO_TAKE_UP,
    ClusterReport,
    ConsentRow,
    ConsentTable,
    GrantConsent,
    Leave,
    ListConsents,
    ListTokens,
    MakeToken,
    Publish,
    Published,
    RevokeToken,
    ShowCluster,
    TakeUpIdentity,
    TokenMade,
    TokenTable,
)

if TYPE_CHECKING:
    from iriai.daemon.requests.cluster.authority import ClusterAuthority
    from iriai.identity.cluster_state import ClusterState
    from iriai.identity.documents.signed_document import DocumentKind

log = logging.getLogger(__name__)


class ClusterHandlers:
    """Handlers of clients' requests about the cluster."""

    def __init__(
        self, settings: DaemonSettings, engine: Engine, authority: ClusterAuthority
    ) -> None:
        self._settings = settings
        self._engine = engine
        self._authority = authority

    def _cluster(self) -> ClusterState:
        cluster = self._settings.cluster
        if cluster is None:
            raise Refused(
                "no-cluster",
                f"{self._settings.home} is in no cluster",
                "'iriai token' as root creates one, 'iriai join' joins one",
            )
        return cluster

    # --- identity --------------------------------------------------------------------------------

    @handles(TakeUpIdentity)
    async def _reload_identity(self, asked: RequestContext, body: TakeUpIdentity) -> Done:
        paths, cluster = self._settings.paths, self._settings.cluster
        is_member = Path(paths.cluster).is_dir()
        is_opened = cluster is not None and cluster.is_host_only != cluster.files.is_host_only
        if is_member == (cluster is not None) and not is_opened:
            raise Refused(NOTHING_TO_TAKE_UP, "the daemon uses the existing one already")
        log.info("restarts: the machine %s a cluster", "is in" if is_member else "left")
        self._engine.after_this_turn(self._authority.restart)
        return Done()

    @handles(Leave)
    async def _leave(self, asked: RequestContext, body: Leave) -> Done:
        log.info("leaves cluster %s", self._cluster().identity.cluster)
        if self._authority.network is not None:
            self._authority.network.leave()
        return Done()

    @handles(ShowCluster)
    async def _show(self, asked: RequestContext, body: ShowCluster) -> ClusterReport:
        cluster = self._settings.cluster
        if cluster is None:
            return ClusterReport()
        network = self._authority.network
        return cluster_report(cluster, network.member.incidents if network is not None else None)

    # --- tokens ----------------------------------------------------------------------------------

    @handles(MakeToken)
    async def _make_token(self, asked: RequestContext, body: MakeToken) -> TokenMade:
        cluster, caller, now_s = self._cluster(), asked.caller, self._engine.now.wall_s
        kind = token_kind(body.kind)
        user = user_of_token(caller, kind, body.user, self._settings.operators)
        if kind is TokenKind.JOIN:
            cluster.require_registrar()
        addresses = (body.address,) if body.address else self._authority.addresses.current()
        if not addresses:
            raise Refused(
                "no-address",
                f"{self._settings.home} accepts no connections ([cluster] outward_only), so nobody "
                "can use a token of it",
                "make the token on another machine, or give an address that leads here: --address",
            )
        secret = secrets.token_bytes(RANDOM_BYTES)
        token = Token.make(kind, secret, cluster.trust.authority.fingerprint, addresses)
        ends_s = now_s + body.lifetime_s
        maker = caller.person.name
        cluster.issue(token, maker, user, body.machine, body.bundle, now_s, ends_s)
        name = cluster.identity.cluster
        return TokenMade(token.text, token.id, token.addresses[0], name, ends_s)

    @handles(ListTokens)
    async def _list_tokens(self, asked: RequestContext, body: ListTokens) -> TokenTable:
        of_user = None if asked.caller.operator else asked.caller.person.name
        return token_table(self._cluster().tokens.entries(), of_user, self._engine.now.wall_s)

    @handles(RevokeToken)
    async def _revoke_token(self, asked: RequestContext, body: RevokeToken) -> Done:
        cluster, caller = self._cluster(), asked.caller
        cluster.revoke(body.id, None if caller.operator else caller.person.name)
        if self._authority.unauthenticated is not None:
            self._authority.unauthenticated.revoked(body.id)
        return Done()

    # --- documents -------------------------------------------------------------------------------

    @handles(Publish)
    async def _publish(self, asked: RequestContext, body: Publish) -> Published:
        """Take a document from any user: its signature decides."""
        from iriai.identity.documents.signed_document import DocumentKind

        cluster = self._cluster()
        if body.kind not in frozenset(DocumentKind):
            raise UsageProblem("bad-document-kind", f"'{body.kind}' is not a kind of document")
        kind = DocumentKind(body.kind)
        if kind is DocumentKind.CONFIGURATION:
            return await self._publish_configuration(cluster, kind, body.document)
        if not cluster.receive_document(kind, body.document):
            raise Refused(
                "no-news",
                f"this {kind} is already known here, or older than the one in force",
                "'iriai cluster show' shows what is in force",
            )
        self._engine.after_this_turn(lambda: self._authority.document_received(kind))
        return Published(self._authority.restarts_for(kind))

    async def _publish_configuration(
        self, cluster: ClusterState, kind: DocumentKind, raw: bytes
    ) -> Published:
        if not await self._authority.publish_configuration(cluster, raw):
            held = cluster.document
            raise Refused(
                "document-overtaken",
                f"{held.words()} of operator {held.operator} is in force" if held else "no news",
                "read the text in force, and publish the change with the next number",
            )
        return Published(self._authority.restarts_for(kind))

    # --- consent ---------------------------------------------------------------------------------

    @handles(GrantConsent)
    async def _consent(self, asked: RequestContext, body: GrantConsent) -> Done:
        person, now_s = asked.caller.person, self._engine.now.wall_s
        self._cluster().consent(person.name, person.uid, body.home, now_s, body.lifetime_s)
        words = "consents to" if body.lifetime_s else "withdraws consent to"
        log.info("%s %s tasks from home %s", person.name, words, body.home)
        self._authority.rules_changed()
        return Done()

    @handles(ListConsents)
    async def _list_consents(self, asked: RequestContext, body: ListConsents) -> ConsentTable:
        uid = None if asked.caller.operator else asked.caller.person.uid
        rows = self._cluster().consents.of(uid, self._engine.now.wall_s)
        return ConsentTable(
            tuple(ConsentRow(r.user, r.home, r.made_wall_s, r.ends_wall_s) for r in rows)
        )
