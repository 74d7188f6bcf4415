"""Whom tasks may be run as, and what the machine knows about them."""

from __future__ import annotations

import os

from iriai.model.admission_rules import HomeRules
from iriai.model.service_users import service_problem
from iriai.system.passwd_cache import Login, find_login

LOGIN_KEPT_S = 60.0
"""How long a look-up is used again: it may ask a network directory, and arrays ask ten thousand
times. A change of groups takes effect for tasks started later than this."""


class UserRefused(Exception):
    """Nothing is run as this user here; the text says why."""


class UnknownUser(UserRefused):
    """There is nobody of that name."""


class TaskUsers:
    """Looks users up and decides whether this launcher may run tasks as them."""

    def __init__(self, minimum_uid: int, daemon_uid: int = 0) -> None:
        """`daemon_uid` may give this launcher orders: no task may be that user, but for root's."""
        self._configured_minimum_uid = minimum_uid
        self._minimum_uid = minimum_uid
        self._own_uid = os.geteuid()
        self._daemon_uid = daemon_uid
        self._rules = HomeRules()
        self._known: dict[str, tuple[float, Login]] = {}

    def require_at_least(self, minimum_uid: int) -> None:
        """Refuse users below `minimum_uid` too; never below what this launcher was started with."""
        self._minimum_uid = max(self._configured_minimum_uid, minimum_uid)

    def go_by(self, rules: HomeRules) -> None:
        """Run tasks for those alone whom the machine's owner lets in."""
        self._rules = rules

    def check_home(self, home: str, name: str) -> None:
        """Raise `UserRefused` where tasks of `name` that were handed in at `home` are not run."""
        words = self._rules.refusal(home, name)
        if words:
            raise UserRefused(words)

    def login(self, home: str, name: str, now_s: float) -> Login:
        """As whom a task of `name` from `home` runs, if it may; else raises `UserRefused`."""
        self.check_home(home, name)
        try:
            return self._login(name, now_s)
        except UnknownUser:
            guest = self._rules.user_here(home, name, is_known=False)
            if not guest:
                raise
            return self._login(guest, now_s)

    def _login(self, name: str, now_s: float) -> Login:
        found = self._known.get(name)
        if found is None or now_s - found[0] > LOGIN_KEPT_S:
            found = self._known[name] = (now_s, _look_up(name))
        login = found[1]
        if self._own_uid != 0:
            if login.uid != self._own_uid:
                raise UserRefused(
                    f"this launcher runs without privileges, for user id {self._own_uid} alone;"
                    f" it cannot run tasks of {name} ({login.uid})"
                )
        elif words := service_problem(name, login.uid):
            raise UserRefused(words)
        elif login.uid == self._daemon_uid != 0:
            raise UserRefused(f"{name} is the daemon's user here, who runs no tasks")
        elif login.uid < self._minimum_uid:
            raise UserRefused(
                f"user {name} has id {login.uid}; tasks are run for ids from"
                f" {self._minimum_uid} only"
            )
        return login


def _look_up(name: str) -> Login:
    login = find_login(name)
    if login is None:
        raise UnknownUser(f"there is no user {name[:64]!r} on this machine")
    return login
