"""How much of one thing each user holds, and whether they may have more.

Pure and synchronous: whoever drives it says what is taken and given back.
"""

from __future__ import annotations

from iriai.model.problem import Refused


class Allowance:
    """Of one limit of `[limits]`; see the module."""

    def __init__(self, key: str, what: str, most: int) -> None:
        """`key` is the limit's name in `[limits]`, `what` it counts (plural), for people."""
        self.key = key
        self.what = what
        self.most = most
        self.refusals: dict[str, int] = {}
        """How often each user was refused."""
        self._held: dict[str, int] = {}

    def held(self, user: str) -> int:
        """What `user` holds now."""
        return self._held.get(user, 0)

    def has_room(self, user: str, amount: int = 1) -> bool:
        """Whether `user` may take `amount`; where not, that is counted."""
        if self._held.get(user, 0) + amount <= self.most:
            return True
        self.refusals[user] = self.refusals.get(user, 0) + 1
        return False

    def add(self, user: str, amount: int = 1) -> None:
        """`user` holds so much more, whether or not there was room."""
        self._held[user] = self._held.get(user, 0) + amount

    def give_back(self, user: str, amount: int = 1) -> None:
        """`user` holds so much less."""
        left = self._held[user] - amount
        assert left >= 0, f"{user} gives back more {self.what} than they took"
        if left:
            self._held[user] = left
        else:
            del self._held[user]

    def check(self, user: str, amount: int = 1) -> None:
        """Raise `Refused` where `user` may not take `amount`."""
        if not self.has_room(user, amount):
            raise self.refusal(user)

    def refusal(self, user: str) -> Refused:
        """What is told whoever has no room."""
        name = self.key.removesuffix("_per_user").replace("_", "-")
        return Refused(
            f"too-many-{name}",
            f"{user} has {self.held(user)} {self.what}, and may have {self.most} at once",
            f"wait until some have ended, or have {self.key} in [limits] of iriai.toml raised",
        )
