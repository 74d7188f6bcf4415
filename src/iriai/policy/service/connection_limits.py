"""Limits of connections: a number for each user, and always room for operators."""

from __future__ import annotations

from iriai.config.limits import LimitsSection
from iriai.model.problem import Problem, Refused, Unreachable


class Allowance:
    """A quota of one limit of `[limits]`.

    Pure and synchronous: the caller reports what is taken and given back.
    """

    def __init__(self, key: str, what: str, most: int) -> None:
        """`key` is the limit's name in `[limits]`, `what` it counts (plural), for people."""
        self.key = key
        self.what = what
        self.most = most
        self.refusals: dict[str, int] = {}
        """How often each user was refused."""
        self._held: dict[str, int] = {}

    def held(self, user: str) -> int:
        """Return what `user` holds now."""
        return self._held.get(user, 0)

    def has_room(self, user: str, amount: int = 1) -> bool:
        """Return whether `user` may take `amount`; count a refusal where not."""
        if self._held.get(user, 0) + amount <= self.most:
            return True
        self.refusals[user] = self.refusals.get(user, 0) + 1
        return False

    def add(self, user: str, amount: int = 1) -> None:
        """Add `amount` to what `user` holds, whether or not there is room."""
        self._held[user] = self._held.get(user, 0) + amount

    def give_back(self, user: str, amount: int = 1) -> None:
        """Subtract `amount` from what `user` holds."""
        left = self._held[user] - amount
        if left < 0:
            raise ValueError(f"{user} gives back more {self.what} than they took")
        if left:
            self._held[user] = left
        else:
            del self._held[user]

    def check(self, user: str, amount: int = 1) -> None:
        """Raise `Refused` where `user` may not take `amount`."""
        if not self.has_room(user, amount):
            raise self.refusal(user)

    def refusal(self, user: str) -> Refused:
        """Return the error for a user without room."""
        name = self.key.removesuffix("_per_user").replace("_", "-")
        return Refused(
            f"too-many-{name}",
            f"{user} has {self.held(user)} {self.what}, and may have {self.most} at once",
            f"wait until some have ended, or ask an operator to raise {self.key} in [limits] of "
            "iriai.toml",
        )


class ConnectionLimits:
    """Limits of the connections of one daemon; pure, as all of `policy`.

    Connections count here once they are authenticated; until then the acceptor bounds them
    (`daemon.net.acceptor`).
    """

    def __init__(self, limits: LimitsSection) -> None:
        self.per_user = Allowance(
            "connections_per_user", "connections", limits.connections_per_user
        )
        self._most = limits.connections
        self._for_users = max(1, limits.connections - limits.connections_reserved)
        self._open = 0
        self.refusals: dict[str, int] = {}
        """The number of times that each user was refused because of too many clients in all."""

    def enter(self, user: str, *, is_operator: bool) -> Problem | None:
        """Count one more connection; return why it is refused instead, or None."""
        if self._open >= (self._most if is_operator else self._for_users):
            self.refusals[user] = self.refusals.get(user, 0) + 1
            return Unreachable(
                "too-many-clients",
                f"the daemon has {self._open} clients already",
                "try again when some have ended; an operator can raise connections in [limits] of "
                "iriai.toml",
            )
        refusal = self._refusal(user, is_operator=is_operator)
        if refusal is None:
            self._open += 1
            self.per_user.add(user)
        return refusal

    def become(self, before: str, user: str, *, is_operator: bool) -> Problem | None:
        """Count a connection of `before` for `user`; return why it is refused instead, or None."""
        refusal = self._refusal(user, is_operator=is_operator)
        if refusal is None:
            self.per_user.give_back(before)
            self.per_user.add(user)
        return refusal

    def leave(self, user: str) -> None:
        """Count off a connection of `user`."""
        self._open -= 1
        self.per_user.give_back(user)

    def _refusal(self, user: str, *, is_operator: bool) -> Problem | None:
        if is_operator or self.per_user.has_room(user):
            return None
        refused = self.per_user.refusal(user)
        return Unreachable(refused.code, refused.message, refused.hint)
