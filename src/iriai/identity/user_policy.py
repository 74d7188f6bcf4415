"""Decides whose tasks a machine runs: the owner's rule, the cluster's trust, users' consents.

It also checks whether the user exists here. The launcher enforces the owner's rule and the users
itself; this class refuses before a claim is granted. docs/spec/004, section 11.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iriai.model.admission_rules import HomeRules, service_problem
from iriai.model.home_trust import refusal_of
from iriai.system.passwd_cache import Person, UnixUsers

if TYPE_CHECKING:
    from iriai.identity.cluster_state import ClusterState


class UserPolicy:
    """The users of one machine. `single_uid` is that of a single-user daemon; None: all users."""

    def __init__(
        self,
        rules: HomeRules,
        minimum_uid: int,
        single_uid: int | None,
        cluster: ClusterState | None = None,
        unix_users: UnixUsers | None = None,
    ) -> None:
        """Trust and consents are read from `cluster` for each decision."""
        self._rules = rules
        self._minimum_uid = minimum_uid
        self._single_uid = single_uid
        self._cluster = cluster
        self._unix = unix_users or UnixUsers()

    def judge(self, home: str, user: str, wall_s: float) -> str:
        """Return why a task of `user` from `home`, another machine, is not run; empty: it is."""
        person = self._unix.by_name(user)
        if words := self._unwelcome(home, user, person, wall_s):
            return words
        name = self._rules.user_here(home, user, is_known=person is not None)
        if name != user:
            person = self._unix.by_name(name) if name else None
        if person is None:
            guest = f", nor does a guest user '{name}'" if name else ""
            return f"user {user} does not exist here{guest}"
        if self._single_uid is not None:
            mine = person.uid == self._single_uid
            return "" if mine else f"it works for user id {self._single_uid} alone"
        if words := service_problem(name, person.uid):
            return words
        if person.uid < self._minimum_uid:
            return f"user {name} has id {person.uid} here, below {self._minimum_uid}"
        return ""

    def _unwelcome(self, home: str, user: str, person: Person | None, wall_s: float) -> str:
        """Return why it is not run, without a check whether the user exists here; empty: it is."""
        cluster = self._cluster
        if cluster is None:
            return self._rules.refusal(home, user)

        def has_consented() -> bool:
            consents = cluster.consents
            return person is not None and consents.holds(home, user, person.uid, wall_s)

        return refusal_of(self._rules, cluster.home_trust, home, user, has_consented)
