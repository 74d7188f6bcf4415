"""Limits of users and accounts: of connections, with room for operators, and unfinished jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from iriai.config.limits import LimitsSection
from iriai.model.ids import Account
from iriai.model.job import JobSpec
from iriai.model.problem import Problem, Refused, Unreachable

JOB_BYTES = 2048
"""The memory of a job beside its texts."""
NO_LIMIT = 1 << 62

_encode = msgspec.msgpack.Encoder().encode


class Allowance:
    """A quota of one limit of `[limits]`.

    Pure and synchronous: the caller reports what is taken and given back.
    """

    def __init__(self, key: str, what: str, most: int, whose: str = "") -> None:
        """`key` is the limit's name in `[limits]`, `what` it counts (plural), for people.

        `whose` stands before the names of those who hold it, where these are no users.
        """
        self.key = key
        self._whose = whose
        self.what = what
        self.most = most
        self.refusals: dict[str, int] = {}
        """How often each user was refused."""
        self._held: dict[str, int] = {}

    def held(self, user: str) -> int:
        """Return what `user` holds now."""
        return self._held.get(user, 0)

    def has_room(self, holder: str, amount: int = 1, user: str = "") -> bool:
        """Return whether `holder` may take `amount`; count a refusal of `user` where not.

        An empty `user` is the holder.
        """
        if self._held.get(holder, 0) + amount <= self.most:
            return True
        user = user or holder
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

    def excess(self, user: str) -> str:
        """Return what `user` has too much of."""
        return f"{self.what} of {user}: {self.key} is less"

    def check(self, user: str, amount: int = 1) -> None:
        """Raise `Refused` where `user` may not take `amount`."""
        if not self.has_room(user, amount):
            raise self.refusal(user)

    def refusal(self, holder: str) -> Refused:
        """Return the error for one without room."""
        name = self.key.removesuffix("_per_user").replace("_", "-")
        return Refused(
            f"too-many-{name}",
            f"{self._whose}{holder} has {self.held(holder)} {self.what}, and may have {self.most} "
            "at once",
            f"wait until some have ended, or ask an operator to raise {self.key} in [limits] of "
            "iriai.toml",
        )


class HeldBytes:
    """What one connection holds of an allowance of its user."""

    def __init__(self, allowance: Allowance, user: str, *, is_operator: bool) -> None:
        self._allowance = allowance
        self._user = user
        self._is_operator = is_operator
        self._bytes = 0

    def hold(self, held_bytes: int) -> str:
        """Set what it holds; return why that is too much, or nothing. Operators may hold all."""
        more, self._bytes = held_bytes - self._bytes, held_bytes
        if more < 0:
            self._allowance.give_back(self._user, -more)
        if more <= 0:
            return ""
        has_room = self._is_operator or self._allowance.has_room(self._user, more)
        self._allowance.add(self._user, more)
        return "" if has_room else self._allowance.excess(self._user)


class ConnectionLimits:
    """Limits of the connections of one daemon; pure, as all of `policy`.

    Connections count here once they are authenticated; until then the acceptor bounds them
    (`links.admission`).
    """

    def __init__(self, limits: LimitsSection) -> None:
        self.per_user = Allowance(
            "connections_per_user", "connections", limits.connections_per_user
        )
        self.unfinished = Allowance(
            "unfinished_bytes_per_user",
            "bytes of unfinished requests",
            limits.unfinished_bytes_per_user,
        )
        self.unsent = Allowance(
            "unsent_bytes_per_user", "bytes of unread answers", limits.unsent_bytes_per_user
        )
        self._most = limits.connections
        self._for_users = max(1, limits.connections - limits.connections_reserved)
        self._open = 0
        self.refusals: dict[str, int] = {}
        """The number of times that each user was refused because of too many clients in all."""

    def counters(self) -> dict[str, dict[str, int]]:
        """Return how often each user was refused, by limit; the counters stay current."""
        each_user = (self.per_user, self.unfinished, self.unsent)
        return {"connections": self.refusals, **{each.key: each.refusals for each in each_user}}

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
        """Count a connection of `before` (empty: of nobody) for `user`, or return as `enter`."""
        if not before:
            return self.enter(user, is_operator=is_operator)
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


class _Held(NamedTuple):
    user: str
    account: str
    """Empty where accounts have no limits of their own."""
    size_bytes: int


class HeldJobs:
    """Unfinished jobs of one home.

    A job counts with all texts that came with it, even if its environment is shared: whether other
    jobs share one is not known any more once the job that brought it has finished.
    """

    def __init__(self, limits: LimitsSection) -> None:
        jobs, sizes = "jobs that have not finished", "bytes of jobs that have not finished"
        self._of_users = (
            Allowance("jobs_per_user", jobs, limits.jobs_per_user),
            Allowance("job_bytes_per_user", sizes, limits.job_bytes_per_user),
        )
        by_account = (limits.jobs_per_account, limits.job_bytes_per_account)
        jobs_max, bytes_max = (NO_LIMIT if most is None else most for most in by_account)
        self._of_accounts = (
            Allowance("jobs_per_account", jobs, jobs_max, "the account "),
            Allowance("job_bytes_per_account", sizes, bytes_max, "the account "),
        )
        self.is_by_account = by_account != (None, None)
        """Whether accounts have limits of their own."""
        counted = self._of_users + (self._of_accounts if self.is_by_account else ())
        self.refusals = {each.key: each.refusals for each in counted}
        """How often each user was refused, by limit; kept up to date."""
        self.freed_bytes = 0
        """The bytes of jobs that have finished so far; it only grows."""
        self._held: dict[int, _Held] = {}

    def restore(self, number: int, spec: JobSpec, text_bytes: Mapping[str, int]) -> None:
        """Count a stored job; `text_bytes` are the sizes of stored texts by digest."""
        texts = (spec.environment, spec.script, spec.stdin)
        size_bytes = len(_encode(spec)) + sum(text_bytes.get(digest, 0) for digest in texts)
        self.add(number, spec.user, spec.account, size_bytes)

    def check(self, user: str, size_bytes: int) -> None:
        """Raise `Refused` where `user` may not submit another job of that size."""
        _require_room(self._of_users, user, size_bytes, user)

    def check_account(self, account: Account, user: str, size_bytes: int) -> None:
        """Raise `Refused` where `account` may not have another; only where it `is_by_account`."""
        _require_room(self._of_accounts, str(account), size_bytes, user)

    def add(self, number: int, user: str, account: Account, size_bytes: int) -> None:
        """Count an accepted job of `user` for `account`."""
        holder = str(account) if self.is_by_account else ""
        held = self._held[number] = _Held(user, holder, size_bytes + JOB_BYTES)
        for allowance, holder, amount in self._counts(held):
            allowance.add(holder, amount)

    def job_finished(self, number: int) -> None:
        """Count off a job that has finished."""
        held = self._held.pop(number, None)
        if held is None:
            return
        self.freed_bytes += held.size_bytes
        for allowance, holder, amount in self._counts(held):
            allowance.give_back(holder, amount)
        if not self._held:
            self._held = {}  # a dictionary keeps the room that it once took

    def _counts(self, held: _Held) -> list[tuple[Allowance, str, int]]:
        """Return where a job counts, for whom and how much."""
        jobs, sizes = self._of_users
        counts = [(jobs, held.user, 1), (sizes, held.user, held.size_bytes)]
        if self.is_by_account:
            jobs, sizes = self._of_accounts
            counts += [(jobs, held.account, 1), (sizes, held.account, held.size_bytes)]
        return counts


def _require_room(
    allowances: tuple[Allowance, Allowance], holder: str, size_bytes: int, user: str
) -> None:
    """Raise `Refused` where `holder` may not have another job of `user`."""
    jobs, sizes = allowances
    if not jobs.has_room(holder, 1, user):
        problem = jobs.refusal(holder)
        raise Refused("too-many-jobs", problem.message, problem.hint)
    if not sizes.has_room(holder, size_bytes + JOB_BYTES, user):
        problem = sizes.refusal(holder)
        raise Refused("too-many-job-bytes", problem.message, problem.hint)
