"""Admission rules of a machine: which homes may have tasks run there, for which users.

Node and launcher both apply them, each by itself. docs/guide/joining.md.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

SERVICE_UID_MIN = 60_514
"""Above the users of systemd-homed (60001 to 60513), who are people."""
SERVICE_UID_MAX = 65_535
"""-1 in 16 bits; directories give people ids beyond."""
ERROR_UID_MIN = (1 << 32) - 2
"""-2, which was `nobody` on some systems, and -1, which means no change of id."""


def service_problem(name: str, uid: int) -> str:
    """Return why no task runs as the user, for people; empty: it may be a person."""
    if SERVICE_UID_MIN <= uid <= SERVICE_UID_MAX or uid >= ERROR_UID_MIN:
        return (
            f"user {name} has id {uid}, and ids from {SERVICE_UID_MIN} to {SERVICE_UID_MAX} are"
            " of services and of 'nobody', not of people"
        )
    return ""


ALL = "all"
"""Among the users of a home: every user."""
OTHERS = "*"
"""Among the homes: every home that is not named."""
ROOT = "root"


class HomeRules(msgspec.Struct, frozen=True):
    """`[homes]` and `[users]` of a machine."""

    own: str = ""
    """The machine's own home, whose tasks always run."""
    homes: Mapping[str, tuple[str, ...]] = {}
    """By home, or `*`, the users whose tasks may run here. Empty: all users of all homes."""
    guest: str = ""
    """The user that runs tasks of unknown users; empty: such tasks are refused."""
    is_member: bool = False
    """True if the machine is in a cluster: then no task from elsewhere runs as root."""

    def refusal(self, home: str, user: str) -> str:
        """Return why a task of `user` submitted on `home` is not run here; empty: it is.

        `user_here` decides separately whether such a user exists here.
        """
        if home == self.own:
            return ""
        if self.is_member and user == ROOT:
            return f"no task that was submitted elsewhere runs as {ROOT}"
        if not self.homes:
            return ""
        users = self.homes.get(home, self.homes.get(OTHERS))
        if users is None:
            return f"it takes no tasks of home {home}"
        if ALL not in users and user not in users:
            return f"it takes no tasks of {user} from home {home}"
        return ""

    def user_here(self, home: str, user: str, *, is_known: bool) -> str:
        """Return the user that runs such a task here; empty: it is refused."""
        if is_known:
            return user
        return self.guest if home != self.own else ""
