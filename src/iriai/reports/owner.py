"""What runs on a machine with an owner, for whom, and whether its owner uses it."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from iriai.model.instant import Instant
from iriai.model.problem import Refused
from iriai.model.suspension import SuspendReason
from iriai.node.core import Node
from iriai.node.metering import HeldClaim
from iriai.wire.owner import BackgroundRow, OwnerReport, SensorRow

if TYPE_CHECKING:
    from iriai.node.suspending.giving_way import GivingWay


def owner_of(node: Node | None, machine: str) -> GivingWay:
    """Return how tasks give way here; raise `Refused` if they never do."""
    if node is None or node.owner is None:
        raise Refused(
            "no-owner-policy",
            f"tasks on {machine} never give way to an owner",
            'name a profile in its iriai.toml: [owner] profile = "desk"; docs/guide/owners.md',
        )
    return node.owner


def owner_report(node: Node, owner: GivingWay, now: Instant) -> OwnerReport:
    """Return what its owner may want to know."""
    presence, policy, now_s = owner.presence, owner.policy, now.steady_s
    seen_s = {sign.kind: max(0.0, now_s - sign.at_s) for sign in owner.last}
    reason = node.unavailable() or owner.reason
    left_s = presence.word_until_s - now_s if presence.word is not None else inf
    delays_s = {
        "suspend": policy.suspend_s,
        "continue": policy.continue_s,
        "reclaim": policy.reclaim_s,
        "vacate": policy.vacate_s,
        "discard": policy.discard_s,
    }
    held = [node.held(attempt) for attempt in node.running()]
    return OwnerReport(
        node.settings.machine,
        presence.used_s(now_s),
        "" if reason is None else reason.had,
        presence.word or "",
        None if left_s == inf else max(0.0, left_s),
        tuple((step, None if at_s == inf else at_s) for step, at_s in delays_s.items()),
        tuple(
            SensorRow(each.kind, each.works, each.note, seen_s.get(each.kind), each.holds)
            for each in owner.sensors
        ),
        tuple(_row(each, owner) for each in held if each.is_ordered),
        () if policy.expressions is None else policy.expressions.texts,
    )


def _row(held: HeldClaim, owner: GivingWay) -> BackgroundRow:
    claim = held.claim
    reasons = () if held.suspension is None else held.suspension.reasons
    state = "suspended" if SuspendReason.OWNER in reasons else "runs"
    if owner.policy.exempts(claim.user):
        state = "exempt"
    if held.stop is not None:
        state = "ending"
    resources = claim.resources
    return BackgroundRow(
        str(claim.attempt.task), claim.user, state, resources.cpus, resources.memory_bytes
    )
