"""How far one task has followed the orders to freeze and to thaw it, and for how long."""

from __future__ import annotations

import msgspec

from iriai.launcher.contract.messages import FreezeOrder, FreezeState
from iriai.model.ids import AttemptId
from iriai.model.suspension import NO_REASONS, Reasons


class TaskSuspension(msgspec.Struct, eq=False):
    """Of a task that was ordered to freeze, until it is over; others have none."""

    number: int = -1
    """Of the last order."""
    reasons: Reasons = NO_REASONS
    """Those of the last order."""
    changed_s: float = 0.0
    """When it was last frozen or thawed, or had other reasons, on the steady clock."""
    since_s: float | None = None
    """Since when it is frozen; None: it is not."""
    is_complete: bool = True
    """Whether nothing of it runs; while it is not frozen, True."""
    is_told: bool = True
    """Whether the daemon knows that it was frozen."""
    freezes: int = 0
    """How often it was frozen: looks at an earlier time are over."""
    limit_stands: bool = False
    """Whether the timer of its wall limit ran out while it was frozen."""
    samples_stand: bool = False
    """Whether a sample of its use was due while it was frozen."""
    _before_s: float = 0.0
    """How long it was frozen before `since_s`."""

    @property
    def is_frozen(self) -> bool:
        """Whether it is frozen, or is about to be."""
        return self.since_s is not None

    def take(self, order: FreezeOrder, now_s: float) -> bool:
        """Take in an order; return whether it is newer than the last."""
        if order.number <= self.number:
            return False
        if order.reasons != self.reasons:
            self.changed_s = now_s
        self.number, self.reasons = order.number, order.reasons
        return True

    def freeze(self, now_s: float) -> None:
        """Count it as frozen from now on; whether nothing runs is not known yet."""
        self.since_s = self.changed_s = now_s
        self.freezes += 1
        self.is_complete = self.is_told = False

    def thaw(self, now_s: float) -> None:
        """Count it as going on from now on."""
        self._before_s = self.frozen_s(now_s)
        self.changed_s, self.since_s = now_s, None
        self.is_complete = self.is_told = True

    def frozen_s(self, now_s: float) -> float:
        """Return how long it was frozen in all, until `now_s`."""
        since_s = now_s if self.since_s is None else self.since_s
        return self._before_s + max(0.0, now_s - since_s)

    def state(self, attempt: AttemptId) -> FreezeState:
        """Return what the daemon is told of it."""
        return FreezeState(
            attempt,
            self.number,
            self.reasons,
            self.frozen_s(self.changed_s),
            self.changed_s,
            self.is_complete,
        )
