"""The cluster as one of its machines knows it: documents, tokens, trust, and how news travels."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from iriai.machine.core import Machine
from iriai.model.home_trust import users_text
from iriai.protocol.messages.effects import Part
from iriai.protocol.messages.members import MemberState
from iriai.wire.joining import (
    ClusterReport,
    EjectedRow,
    OperatorRow,
    TokenRow,
    TokenTable,
    TrustedRow,
)
from iriai.wire.machines import LinkRow
from iriai.wire.reports import ClusterSight, Setting

CLOCK_OFF_S = 60.0
"""A clock that is set by the network is within a second; the ledger keeps rows aside that are an
hour off, and certificates are refused before they begin."""

if TYPE_CHECKING:
    from iriai.cluster.incidents import IncidentLog
    from iriai.cluster.member import ClusterMember, SeenMember
    from iriai.identity.cluster_state import ClusterState
    from iriai.identity.storage.join_tokens import IssuedToken


def cluster_report(cluster: ClusterState, incidents: IncidentLog | None) -> ClusterReport:
    """Return the cluster as this machine knows it; `incidents` are with other machines."""
    identity, document = cluster.identity, cluster.document
    issuer = identity.certificate.issuer
    operators = cluster.roster.operators if cluster.roster else ()
    ejected = tuple(
        EjectedRow(e.ejection.machine, e.operator, e.ejection.at_wall_s, e.ejection.reason)
        for e in cluster.trust.ejections
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
        noticed=tuple(incidents.rows()) if incidents else (),
        proposals=tuple(ejection_proposals(cluster, incidents)) if incidents else (),
        is_host_only=cluster.is_host_only,
    )


def ejection_proposals(cluster: ClusterState, incidents: IncidentLog) -> list[str]:
    """Return a proposal for each machine that operators may eject."""
    return incidents.proposals({each.ejection.machine for each in cluster.trust.ejections})


def trusted_rows(cluster: ClusterState) -> tuple[TrustedRow, ...]:
    """Return the users for whom operators let each home submit."""
    in_force = cluster.trusted()
    return tuple(
        TrustedRow(each.trusted.home, each.trusted.users, each.operator, each.trusted.moment_ms)
        for each in cluster.trusted_homes
        if each.trusted in in_force
    )


def trust_settings(cluster: ClusterState) -> tuple[Setting, ...]:
    """Return `trusted_rows` as rows of `config show`."""
    return tuple(
        Setting(f"trust.{row.home}", users_text(row.users), f"operator {row.operator}")
        for row in trusted_rows(cluster)
    )


def token_table(entries: Iterable[IssuedToken], user: str | None, now_wall_s: float) -> TokenTable:
    """Return the tokens that `user` made or may use; None: all."""
    shown = (each for each in entries if user is None or user in (each.made_by, each.user))
    return TokenTable(tuple(_token_row(each, now_wall_s) for each in shown))


def _token_row(entry: IssuedToken, now_wall_s: float) -> TokenRow:
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


def clock_trouble(links: Iterable[LinkRow]) -> list[str]:
    """Return a sentence for each machine whose clock is off by more than `CLOCK_OFF_S`."""
    return [
        f"the clock of {each.machine} is {each.offset_s:+.0f} s off this machine's"
        for each in links
        if each.offset_s is not None and abs(each.offset_s) > CLOCK_OFF_S
    ]


def lost_front_end(front_end: str, links: Iterable[LinkRow]) -> list[str]:
    """Return a sentence if a back end has no link with its front end; empty: it is none."""
    if not front_end or any(each.machine == front_end and each.is_up for each in links):
        return []
    words = next((each.words for each in links if each.machine == front_end), "not tried yet")
    return [f"the front end {front_end} is not linked, so nothing new is started: {words}"]


def cluster_sight(
    name: str,
    member: ClusterMember,
    machine: Machine,
    seen: Iterable[SeenMember],
    links: Iterable[LinkRow],
    steadiness: float,
    period_s: float,
) -> ClusterSight:
    """Return how this machine sees the cluster `name`.

    `steadiness` is the published uptime of this machine, and `period_s` that of the gossip.
    """
    states = [each.member.state for each in seen]
    half_s, late_s = member.metrics.news_s or (None, None)
    offsets = ((each.offset_s, each.machine) for each in links if each.offset_s is not None)
    worst_s, farthest = max(offsets, key=lambda each: abs(each[0]), default=(None, ""))
    stats = machine.home.stats if Part.HOME in machine.parts else None
    return ClusterSight(
        name,
        {state: states.count(state) for state in MemberState},
        (machine.broker_at,),
        half_s,
        late_s,
        None if late_s is None else late_s / period_s,
        *member.metrics.bytes_per_s,
        stats.begun if stats is not None else 0,
        dict(stats.refusals) if stats is not None else {},
        worst_s,
        farthest,
        steadiness,
    )
