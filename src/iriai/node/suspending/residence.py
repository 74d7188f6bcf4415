"""Residence: a task that has run long enough in its queue goes on in the next lower one.

Paper 002. What it was admitted with stays; its clock begins anew. docs/spec/013, section 7.
"""

from __future__ import annotations

from math import inf

from msgspec.structs import replace

from iriai.model.instant import Instant
from iriai.node.metering import HeldClaim
from iriai.node.suspending.suspended_claims import QueueParts

LOOK_MIN_S = 0.1
"""The shortest time between two looks at a task that takes turns: when it ran is an estimate."""


class Residence:
    """Moves the claims of a machine from queue to queue."""

    def __init__(self, parts: QueueParts) -> None:
        self._parts = parts
        self._queues, self._claims = parts.queues, parts.claims

    def left_s(self, held: HeldClaim, now_s: float) -> float:
        """Return how long a claim still runs in its queue; infinite: it stays there."""
        residence_s = self._queues.residence_s(held.claim.queue)
        if residence_s == inf or held.started_steady_s is None or held.end is not None:
            return inf
        return residence_s - (held.ran_so_far_s(now_s) - held.claim.resided_from_s)

    def next_s(self, now_s: float) -> float | None:
        """Return when the next claim may be due; None: none is."""
        if not self._queues.residences_s:
            return None
        left_s = min(
            (
                self.left_s(held, now_s)
                for held in self._claims.by_attempt.values()
                if not held.is_preempted
            ),
            default=inf,
        )
        return None if left_s == inf else now_s + max(LOOK_MIN_S, left_s)

    def move(self, now: Instant) -> None:
        """Move those that have run long enough."""
        if not self._queues.residences_s:
            return
        for held in self._claims.by_attempt.values():
            if self.left_s(held, now.steady_s) <= 0.0:
                ran_s = held.ran_so_far_s(now.steady_s)
                queue = held.claim.queue + 1
                held.claim = replace(held.claim, queue=queue, resided_from_s=ran_s)
                self._parts.changed(held)
                self._parts.suspensions.tell_again(held)
