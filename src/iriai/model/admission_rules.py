"""Which homes may have tasks run on a machine, and for which users: the machine's own rule.

Node and launcher both go by it, the launcher by itself. docs/guide/joining.md.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

ALL = "all"
"""Among the users of a home: every user."""
OTHERS = "*"
"""Among the homes: every home that is not named."""
ROOT = "root"


class HomeRules(msgspec.Struct, frozen=True):
    """`[homes]` and `[users]` of a machine."""

    own: str = ""
    """The machine's own home, whose tasks are always welcome."""
    homes: Mapping[str, tuple[str, ...]] = {}
    """By home, or `*`, the users whose tasks it may have run here. Empty: all of all homes."""
    guest: str = ""
    """Who runs the tasks of users that are not known here; empty: such tasks are refused."""
    is_member: bool = False
    """Whether the machine is in a cluster: then nobody elsewhere has anything run as root."""

    def refusal(self, home: str, user: str) -> str:
        """Why a task of `user` that was handed in at `home` is not run here; empty: it is.

        Whether there is such a user here is another question; see `user_here`.
        """
        if home == self.own:
            return ""
        if self.is_member and user == ROOT:
            return f"nothing that was handed in elsewhere is run as {ROOT}"
        if not self.homes:
            return ""
        users = self.homes.get(home, self.homes.get(OTHERS))
        if users is None:
            return f"it takes no tasks of home {home}"
        if ALL not in users and user not in users:
            return f"it takes no tasks of {user} from home {home}"
        return ""

    def user_here(self, home: str, user: str, *, is_known: bool) -> str:
        """The user as whom such a task runs here; empty: nobody, it is refused."""
        if is_known:
            return user
        return self.guest if home != self.own else ""
