"""Handlers of requests about the cluster: tokens, documents of operators, joining, leaving."""

from __future__ import annotations

import logging
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from iriai.daemon.loop.engine import Engine
from iriai.daemon.server.connections import RequestContext
from iriai.daemon.server.handler_table import handles
from iriai.daemon.startup.settings import DaemonSettings
from iriai.model.problem import NotAllowed, Refused, UsageProblem
from iriai.model.token_text import RANDOM_BYTES, Token, TokenKind
from iriai.wire.exchange import Done
from iriai.wire.joining import (
    ClusterReport,
    ConsentRow,
    ConsentTable,
    EjectedRow,
    GrantConsent,
    Leave,
    ListConsents,
    ListTokens,
    MakeToken,
    OperatorRow,
    Publish,
    RevokeToken,
    ShowCluster,
    TakeUpIdentity,
    TokenMade,
    TokenRow,
    TokenTable,
    TrustedRow,
)

if TYPE_CHECKING:
    from iriai.daemon.requests.cluster.authority import ClusterAuthority
    from iriai.identity.cluster_state import ClusterState
    from iriai.identity.storage.join_tokens import IssuedToken

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
        is_member = Path(self._settings.paths.cluster).is_dir()
        if is_member == (self._settings.cluster is not None):
            raise Refused("nothing-to-take-up", "the daemon uses the existing one already")
        log.info("restarts: the machine %s a cluster", "entered" if is_member else "left")
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
        report, network = report_of(cluster), self._authority.network
        if network is not None:
            noticed, proposals = tuple(network.incidents.rows()), tuple(network.proposals())
            report = msgspec.structs.replace(report, noticed=noticed, proposals=proposals)
        return report

    # --- tokens ----------------------------------------------------------------------------------

    @handles(MakeToken)
    async def _make_token(self, asked: RequestContext, body: MakeToken) -> TokenMade:
        from iriai.identity.storage.join_tokens import IssuedToken, digest_of

        cluster, now = self._cluster(), self._engine.now
        kind = token_kind(body.kind)
        user = ""
        if kind is TokenKind.JOIN:
            self._settings.require_operator(asked.caller, "let machines join the cluster")
            cluster.require_registrar()
        else:
            user = self._user_of_token(asked, body.user)
        addresses = (body.address,) if body.address else self._authority.addresses.current()
        if not addresses:
            raise Refused(
                "no-address",
                f"{self._settings.home} accepts no connections ([cluster] outward_only), so nobody "
                "can use a token of it",
                "make the token on another machine, or give an address that leads here: --address",
            )
        fingerprint = cluster.trust.authority.fingerprint
        token = Token.make(kind, secrets.token_bytes(RANDOM_BYTES), fingerprint, addresses)
        ends_s = now.wall_s + body.lifetime_s
        entry = IssuedToken(
            token.id,
            kind,
            digest_of(token.secret),
            now.wall_s,
            ends_s,
            asked.caller.person.name,
            user,
            body.machine,
            bundle=seal_bundle(body.bundle, token.secret),
        )
        cluster.tokens.add(entry, now.wall_s)
        cluster.files.keep_tokens(cluster.tokens)
        name = cluster.identity.cluster
        return TokenMade(token.text, token.id, token.addresses[0], name, ends_s)

    def _user_of_token(self, asked: RequestContext, user: str) -> str:
        """Return the user of a new token; raise `NotAllowed` for root, who has none."""
        name = asked.caller.person.name
        if user and user != name:
            self._settings.require_operator(asked.caller, "make tokens for other users")
            name = user
        if name == "root":
            raise NotAllowed(
                "token-of-root",
                "root has no tokens: such a token would give away the whole machine",
                "make one for a user: 'iriai token --user NAME'",
            )
        return name

    @handles(ListTokens)
    async def _list_tokens(self, asked: RequestContext, body: ListTokens) -> TokenTable:
        cluster, caller = self._cluster(), asked.caller
        entries = [
            entry
            for entry in cluster.tokens.entries()
            if caller.operator or caller.person.name in (entry.made_by, entry.user)
        ]
        now_s = self._engine.now.wall_s
        return TokenTable(tuple(token_row(entry, now_s) for entry in entries))

    @handles(RevokeToken)
    async def _revoke_token(self, asked: RequestContext, body: RevokeToken) -> Done:
        cluster, caller = self._cluster(), asked.caller
        cluster.tokens.revoke(body.id, None if caller.operator else caller.person.name)
        cluster.files.keep_tokens(cluster.tokens)
        if self._authority.unauthenticated is not None:
            self._authority.unauthenticated.revoked(body.id)
        return Done()

    # --- documents -------------------------------------------------------------------------------

    @handles(Publish)
    async def _publish(self, asked: RequestContext, body: Publish) -> Done:
        """Take a document from any user: its signature decides."""
        from iriai.identity.documents.signed_document import DocumentKind

        cluster = self._cluster()
        if body.kind not in frozenset(DocumentKind):
            raise UsageProblem("bad-document-kind", f"'{body.kind}' is not a kind of document")
        kind = DocumentKind(body.kind)
        if not cluster.receive_document(kind, body.document):
            raise Refused(
                "no-news",
                f"this {kind} is already known here, or older than the one in force",
                "'iriai cluster show' shows what is in force",
            )
        self._engine.after_this_turn(lambda: self._authority.document_received(kind))
        return Done()

    # --- consent ---------------------------------------------------------------------------------

    @handles(GrantConsent)
    async def _consent(self, asked: RequestContext, body: GrantConsent) -> Done:
        from iriai.identity.trust import consents

        cluster, person, now = self._cluster(), asked.caller.person, self._engine.now
        if body.lifetime_s:
            ends_s = now.wall_s + body.lifetime_s
            cluster.consents.add(
                consents.Consent(person.name, person.uid, body.home, now.wall_s, ends_s)
            )
        else:
            cluster.consents.withdraw(body.home, person.name)
        cluster.files.keep_consents(cluster.consents)
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


def seal_bundle(bundle: bytes, secret: bytes) -> bytes:
    """Return `bundle`, an issuer's keys, sealed so that only the joining machine can read it."""
    if not bundle:
        return b""
    from iriai.identity.certificates.sealed_secrets import seal_to_secret
    from iriai.identity.storage.cluster_files import read_bundle

    read_bundle(bundle)
    return seal_to_secret(bundle, secret)


def token_kind(word: str) -> TokenKind:
    """Return the kind that `word` names; raise `UsageProblem` if there is none."""
    if word not in frozenset(TokenKind):
        raise UsageProblem("bad-token-kind", f"there are no tokens for '{word}'")
    return TokenKind(word)


def token_row(entry: IssuedToken, now_wall_s: float) -> TokenRow:
    """Return one line of `iriai token --list`."""
    state = "good"
    words = f"for requests of {entry.user}" if entry.user else "for a machine"
    if entry.machine:
        words = f"for {entry.machine}"
    if entry.revoked:
        state = "revoked"
    elif entry.used_by:
        state, words = "used", f"by {entry.used_by}"
    elif now_wall_s >= entry.ends_wall_s:
        state = "over"
    return TokenRow(
        entry.id, entry.kind, state, words, entry.made_by, entry.made_wall_s, entry.ends_wall_s
    )


def report_of(cluster: ClusterState) -> ClusterReport:
    """Return the cluster as this machine knows it."""
    identity, document = cluster.identity, cluster.document
    issuer = identity.certificate.issuer
    operators = cluster.roster.operators if cluster.roster else ()
    ejected = tuple(
        EjectedRow(
            each.ejection.machine, each.operator, each.ejection.at_wall_s, each.ejection.reason
        )
        for each in cluster.trust.ejections
    )
    return ClusterReport(
        identity.cluster,
        identity.cluster_id,
        cluster.trust.authority.fingerprint,
        identity.name,
        identity.certificate.ends_wall_s,
        issuer.subject.name if issuer else "",
        cluster.issuer is not None,
        ejected,
        document.number if document else 0,
        document.text if document else "",
        document.operator if document else "",
        document.made_wall_s if document else 0.0,
        (*cluster.documents.conflicts, *cluster.refused),
        tuple(cluster.machines()),
        tuple(OperatorRow(o.name, o.certificate, o.opens) for o in operators),
        tuple(each.machine for each in cluster.named()),
        trusted_rows(cluster),
    )


def trusted_rows(cluster: ClusterState) -> tuple[TrustedRow, ...]:
    """Return the users for whom operators let each home submit."""
    in_force = cluster.trusted()
    return tuple(
        TrustedRow(each.trusted.home, each.trusted.users, each.operator, each.trusted.moment_ms)
        for each in cluster.trusted_homes
        if each.trusted in in_force
    )
