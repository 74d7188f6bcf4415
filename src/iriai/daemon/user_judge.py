"""Whose tasks a machine runs: the owner's rule, and whether there is such a user here.

The launcher decides the same again by itself; this one says no before a claim is granted.
"""

from __future__ import annotations

from iriai.identity.unix_users import UnixUsers
from iriai.model.home_rules import HomeRules


class UserJudge:
    """For one machine. `single_uid` is the one user of a single-user daemon; None: everybody."""

    def __init__(
        self,
        rules: HomeRules,
        minimum_uid: int,
        single_uid: int | None,
        unix_users: UnixUsers | None = None,
    ) -> None:
        self._rules = rules
        self._minimum_uid = minimum_uid
        self._single_uid = single_uid
        self._unix = unix_users or UnixUsers()

    def judge(self, home: str, user: str) -> str:
        """Why a task of `user` from `home` is not run here; empty: it is."""
        if home == self._rules.own:
            return ""  # judged when it was handed in
        if words := self._rules.refusal(home, user):
            return words
        person = self._unix.by_name(user)
        name = self._rules.user_here(home, user, is_known=person is not None)
        if name != user:
            person = self._unix.by_name(name) if name else None
        if person is None:
            guest = f", nor a guest user '{name}'" if name else ""
            return f"there is no user {user} here{guest}"
        if self._single_uid is not None:
            mine = person.uid == self._single_uid
            return "" if mine else f"it works for user id {self._single_uid} alone"
        if person.uid < self._minimum_uid:
            return f"user {name} has id {person.uid} here, below {self._minimum_uid}"
        return ""
