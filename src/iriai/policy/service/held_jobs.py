"""Limits of unfinished jobs, for each user and each account."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from iriai.config.limits import LimitsSection
from iriai.model.ids import Account
from iriai.model.job import JobSpec
from iriai.model.problem import Refused

JOB_BYTES = 2048
"""The memory of a job beside its texts."""
NO_LIMIT = 1 << 62

_encode = msgspec.msgpack.Encoder().encode


class _Holding:
    """Of one user, or of one account."""

    __slots__ = ("bytes", "jobs")

    def __init__(self) -> None:
        self.jobs = 0
        self.bytes = 0


class _Limits:
    """The limits of each user, or of each account."""

    def __init__(self, whose: str, jobs_max: int | None, bytes_max: int | None) -> None:
        self._jobs_max = NO_LIMIT if jobs_max is None else jobs_max
        self._bytes_max = NO_LIMIT if bytes_max is None else bytes_max
        self._jobs_key, self._bytes_key = f"jobs_per_{whose}", f"job_bytes_per_{whose}"
        self.is_any = jobs_max is not None or bytes_max is not None
        self.refusals: dict[str, dict[str, int]] = {self._jobs_key: {}, self._bytes_key: {}}
        """How often each user was refused, by limit."""

    def check(self, name: str, holding: _Holding, more_bytes: int, user: str) -> None:
        """Raise `Refused` where whoever has `holding` may not have another job of `user`."""
        if holding.jobs >= self._jobs_max:
            has, most, key, what = holding.jobs, self._jobs_max, self._jobs_key, "jobs"
            code = "too-many-jobs"
        elif holding.bytes + more_bytes > self._bytes_max:
            has, most, key, what = holding.bytes, self._bytes_max, self._bytes_key, "bytes of jobs"
            code = "too-many-job-bytes"
        else:
            return
        counts = self.refusals[key]
        counts[user] = counts.get(user, 0) + 1
        raise Refused(
            code,
            f"{name} has {has} {what} that have not finished, and may have {most} at once",
            f"wait until some have ended, or ask an operator to raise {key} in [limits] of "
            "iriai.toml",
        )


class _Held(NamedTuple):
    """One job, or several that are alike."""

    holdings: tuple[_Holding, ...]
    """The holdings in which it counts."""
    size_bytes: int


_NOTHING = _Holding()


class HeldJobs:
    """Unfinished jobs of one home.

    A job counts with all texts that came with it, even if its environment is shared: whether other
    jobs share one is not known any more once the job that brought it has finished.
    """

    def __init__(self, limits: LimitsSection) -> None:
        self._user_limits = _Limits("user", limits.jobs_per_user, limits.job_bytes_per_user)
        self._account_limits = _Limits(
            "account", limits.jobs_per_account, limits.job_bytes_per_account
        )
        self.is_by_account = self._account_limits.is_any
        """Whether accounts have limits of their own."""
        self.refusals = dict(self._user_limits.refusals)
        """How often each user was refused, by limit; kept up to date."""
        if self.is_by_account:
            self.refusals |= self._account_limits.refusals
        self.freed_bytes = 0
        """The bytes of jobs that have finished so far; it only grows."""
        self._users: dict[str, _Holding] = {}
        """Never removed: there are no more of them than users."""
        self._accounts: dict[Account, _Holding] = {}
        self._held: dict[int, _Held] = {}
        self._last_asked: tuple[str, Account, int] | None = None
        self._last = _Held((), 0)

    def restore(self, number: int, spec: JobSpec, text_bytes: Mapping[str, int]) -> None:
        """Count a stored job; `text_bytes` are the sizes of stored texts by digest."""
        texts = (spec.environment, spec.script, spec.stdin)
        size_bytes = len(_encode(spec)) + sum(text_bytes.get(digest, 0) for digest in texts)
        self.add(number, spec.user, spec.account, size_bytes)

    def check(self, user: str, size_bytes: int) -> None:
        """Raise `Refused` where `user` may not submit another job of that size."""
        holding = self._users.get(user, _NOTHING)
        self._user_limits.check(user, holding, size_bytes + JOB_BYTES, user)

    def check_account(self, account: Account, user: str, size_bytes: int) -> None:
        """Raise `Refused` where `account` may not have another; only where it `is_by_account`."""
        holding = self._accounts.get(account, _NOTHING)
        name = f"the account {account}"
        self._account_limits.check(name, holding, size_bytes + JOB_BYTES, user)

    def add(self, number: int, user: str, account: Account, size_bytes: int) -> None:
        """Count an accepted job of `user` for `account`."""
        asked = (user, account, size_bytes)
        if asked != self._last_asked:  # jobs of a loop are alike
            self._last_asked = asked
            self._last = _Held(self._holdings(user, account), size_bytes + JOB_BYTES)
        held = self._held[number] = self._last
        for holding in held.holdings:
            holding.jobs += 1
            holding.bytes += held.size_bytes

    def job_finished(self, number: int) -> None:
        """Count off a job that has finished."""
        held = self._held.pop(number, None)
        if held is None:
            return
        self.freed_bytes += held.size_bytes
        for holding in held.holdings:
            holding.jobs -= 1
            holding.bytes -= held.size_bytes
        if not self._held:
            self._held = {}  # a dictionary keeps the room that it once took

    def _holdings(self, user: str, account: Account) -> tuple[_Holding, ...]:
        of_user = self._users.setdefault(user, _Holding())
        if not self.is_by_account:
            return (of_user,)
        return (of_user, self._accounts.setdefault(account, _Holding()))
