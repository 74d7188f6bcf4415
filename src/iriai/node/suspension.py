"""Why one claim may not run, and for how long it has not (docs/spec/012)."""

from __future__ import annotations

from math import inf

import msgspec

from iriai.model.instant import Instant
from iriai.model.suspension import (
    NO_REASONS,
    Reasons,
    StoredSuspension,
    SuspendReason,
    is_by_user_alone,
)
from iriai.protocol.messages.effects import AttemptFrozen

OF_THE_MOMENT = (SuspendReason.OWNER, SuspendReason.SLICE)
"""Reasons that a restarted daemon does not remember: whoever gave them looks again."""


class Suspension(msgspec.Struct):
    """Why one claim may not run, and how long it was frozen. Moments are on the steady clock."""

    reasons: Reasons = NO_REASONS
    """Those that are given now."""
    number: int = 0
    """Of the last order to the launcher."""
    change: int = 0
    """Of the last change of its home that was taken in."""
    told: Reasons = NO_REASONS
    """Those for which the launcher keeps it frozen, by its last word; empty: it runs."""
    changed_s: float = 0.0
    """When the launcher said so."""
    frozen_s: float = 0.0
    """How long it was frozen in all, until then."""
    by_user_s: float = 0.0
    """For how long of that by its user alone."""
    freed_cpus: int = 0
    """Those of its cpus that are free for others."""
    is_resuming: bool = False
    """Whether its user wants it to go on, which needs those cpus."""
    is_complete: bool = False
    """Whether nothing of it runs, by the launcher's last word on reasons."""
    ordered_s: float = 0.0
    """When it was last ordered to be frozen: what it has run since is not known until it is told.
    """

    seen: str = ""
    """What was seen of the owner for whom it does not run."""

    @staticmethod
    def restored(stored: StoredSuspension, now: Instant) -> Suspension:
        """Return it as it was stored, without the reasons of the moment."""
        reasons = tuple(each for each in stored.reasons if each not in OF_THE_MOMENT)
        return Suspension(
            reasons,
            stored.number + (reasons != stored.reasons),
            stored.change,
            stored.told,
            now.steady_s - max(0.0, now.wall_s - stored.changed_wall_s),
            stored.frozen_s,
            stored.by_user_s,
            stored.freed_cpus,
            stored.is_resuming,
            ordered_s=now.steady_s,
        )

    def stored(self, now: Instant) -> StoredSuspension:
        """Return it as the store keeps it."""
        return StoredSuspension(
            self.reasons,
            self.number,
            self.change,
            self.told,
            max(0.0, now.wall_s - (now.steady_s - self.changed_s)) if self.told else 0.0,
            self.frozen_s,
            self.by_user_s,
            self.freed_cpus,
            self.is_resuming,
        )

    @property
    def is_by_user(self) -> bool:
        """Return whether its user alone keeps it frozen."""
        return is_by_user_alone(self.told)

    def heard(self, event: AttemptFrozen) -> None:
        """Take the launcher's word: the time since its last one counts for what held until now."""
        lasted_s = max(0.0, event.frozen_s - self.frozen_s)
        if self.is_by_user:
            self.by_user_s += lasted_s
        self.frozen_s = max(self.frozen_s, event.frozen_s)
        self.told, self.changed_s = event.reasons, event.changed_steady_s
        self.is_complete = event.is_complete

    def total_s(self, now_s: float) -> float:
        """Return how long it was frozen in all, until now; at most, until the launcher says."""
        if self.reasons and not self.told:
            return self.frozen_s + max(0.0, now_s - self.ordered_s)
        return self.frozen_s + self._open_s(now_s)

    def total_by_user_s(self, now_s: float) -> float:
        """Return how long of that by its user alone."""
        return self.by_user_s + (self._open_s(now_s) if self.is_by_user else 0.0)

    def _open_s(self, now_s: float) -> float:
        return max(0.0, now_s - self.changed_s) if self.told else 0.0

    def extension_s(self, now_s: float) -> float:
        """Return by how much the end of the claim is later for it; infinite: nobody knows.

        While its user alone keeps it frozen its end does not move: what was promised to others for
        then stays theirs (docs/spec/012, section 6).
        """
        if not self.told:
            return self.frozen_s
        if not self.reasons:  # it is about to go on
            return self.total_s(now_s)
        return self.frozen_s if self.is_by_user and is_by_user_alone(self.reasons) else inf
