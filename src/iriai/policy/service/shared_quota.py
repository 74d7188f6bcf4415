"""A shared quota: users hold what they want while it suffices, then equal shares.

Pure and synchronous.
"""

from __future__ import annotations

from collections.abc import Hashable


class SharedQuota:
    """A quota shared by users: first come while it suffices, then equal shares."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.held = 0
        """The amount that all users hold."""
        self._of: dict[Hashable, int] = {}

    def hold(self, who: Hashable, amount: int) -> bool:
        """Set the amount that `who` holds, and return whether that is permitted.

        Where it is not, the caller is expected to give it back.
        """
        self.held += amount - self._of.pop(who, 0)
        if not amount:
            return True
        self._of[who] = amount
        return self.held <= self.most or amount <= self.most // len(self._of)
