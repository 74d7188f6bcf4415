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
        """By all."""
        self._of: dict[Hashable, int] = {}

    def hold(self, who: Hashable, amount: int) -> bool:
        """`who` holds so much from here on, 0: nothing; whether it may.

        Who may not is expected to give it back.
        """
        self.held += amount - self._of.pop(who, 0)
        if not amount:
            return True
        self._of[who] = amount
        return self.held <= self.most or amount <= self.most // len(self._of)
