"""Room that many share: as long as there is enough each holds what it wants, then an equal share.

Pure and synchronous.
"""

from __future__ import annotations

from collections.abc import Hashable


class SharedQuota:
    """See the module."""

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
