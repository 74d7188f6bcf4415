"""Trusted homes of a cluster: which homes speak for which users, signed by operators.

A machine applies it if its owner set no `[homes]`. docs/spec/004, section 11.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

import msgspec

from iriai.model.admission_rules import ALL, OTHERS, HomeRules
from iriai.model.ids import HOME_NAME
from iriai.model.problem import UsageProblem

USERS_MAX = 256
"""Users named for one home; for more, use `all`."""
USER = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.@-]{0,63}\$?")
"""A user name as useradd(8) and directories of users accept it."""


class HomeTrust(msgspec.Struct, frozen=True):
    """The trust documents in force on one machine."""

    homes: Mapping[str, tuple[str, ...]] = {}
    """By home, or `*` for those that are not named, the users whose tasks others run; `all` is
    every user. Without `*` homes that are not named speak for all users, as in clusters without
    trust."""

    def users_of(self, home: str) -> tuple[str, ...]:
        """Return the users for whom `home` speaks; `(ALL,)`: all of them."""
        return self.homes.get(home, self.homes.get(OTHERS, (ALL,)))

    def trusts(self, home: str, user: str) -> bool:
        """Return whether tasks of `user` that were submitted on `home` run on other machines."""
        users = self.users_of(home)
        return ALL in users or user in users

    @property
    def is_open(self) -> bool:
        """Return whether homes without an entry speak for all users."""
        return ALL in self.users_of(OTHERS)


def refusal_of(
    rules: HomeRules, trust: HomeTrust, home: str, user: str, has_consented: Callable[[], bool]
) -> str:
    """Return why a task of `user` submitted on `home` is not run here; empty: it is.

    The owner's rule decides; without one, the cluster's trust or the user's consent.
    """
    if words := rules.refusal(home, user):
        return words
    if home == rules.own or rules.homes or trust.trusts(home, user) or has_consented():
        return ""
    machine = rules.own
    return (
        f"home {home} is not trusted with {user}: an operator can run 'iriai trust {home} "
        f"--users {user}', or {user} can run 'iriai consent {home}' on {machine}"
    )


def users_text(users: Iterable[str]) -> str:
    """Return the users as text, for people and for `--users`."""
    return ",".join(users) or "none"


def parse_users(text: str) -> tuple[str, ...]:
    """Parse `all`, `none`, or names separated by commas.

    Raises:
        UsageProblem: it is none of these.
    """
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    if names == ("none",):
        return ()
    check_users(names)
    return (ALL,) if ALL in names else names


def check_users(names: tuple[str, ...]) -> None:
    """Raise `UsageProblem` if these are not names of users, or too many."""
    for name in names:
        if not USER.fullmatch(name):
            raise UsageProblem(
                "bad-user", f"'{name[:64]}' cannot name a user", "use all, none, or ann,bob"
            )
    if len(names) > USERS_MAX:
        raise UsageProblem(
            "too-many-users", f"{len(names)} users are named; the limit is {USERS_MAX}", "use all"
        )


def check_home(home: str) -> None:
    """Raise `UsageProblem` if `home` is neither a home's name nor `*`."""
    if home != OTHERS and not HOME_NAME.fullmatch(home):
        raise UsageProblem(
            "bad-home",
            f"'{home[:31]}' cannot name a home",
            "a home has the name of its machine: see 'iriai cluster show'; '*' is all others",
        )
