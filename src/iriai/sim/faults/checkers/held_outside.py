"""What claims of a node hold outside of all bookings, for checks of reservations."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import NamedTuple

from iriai.model.claim import Claim
from iriai.model.ids import AttemptId
from iriai.model.instant import Instant
from iriai.model.resources import Resources
from iriai.node.core import Node


class HeldOutside(NamedTuple):
    """What a claim outside all bookings holds, and for how long from now at most."""

    attempt: AttemptId
    resources: Resources
    left_s: float


def lasts_at_most_s(node: Node, claim: Claim, now: Instant) -> float:
    """Return for how long from now a claim lasts at most."""
    lasts_s = node.held(claim.attempt).stay_left_s(now)
    lasts_s = inf if lasts_s is None else lasts_s
    if claim.gone_by_wall_s is not None:
        lasts_s = min(lasts_s, claim.gone_by_wall_s - now.wall_s)
    return lasts_s


def outside(node: Node, now: Instant) -> Iterator[HeldOutside]:
    """Yield what each claim holds that is in no booking."""
    for attempt in node.running():
        claim = node.held(attempt).claim
        if claim.reservation is None and attempt in node.calendar:
            yield HeldOutside(
                attempt, node.calendar.held_by(attempt), lasts_at_most_s(node, claim, now)
            )
