"""First come, first served, for comparison only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from iriai.model.ids import Account
from iriai.policy.draw.order import Contender, Groups
from iriai.policy.draw.sampling import CertainOrder


class Fifo(CertainOrder):
    """The most urgent head task, then the one that waits longest, then the lowest id."""

    is_one_queue: ClassVar[bool] = True

    def next_account(self, contenders: Sequence[Contender], groups: Groups) -> Account:
        """Return the account whose head task came first."""
        return min(contenders, key=lambda c: (-c.urgency, c.queued_at_s, c.head)).account
