"""Whose session agents are heard (docs/spec/016, section 2)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

from iriai.model.admission_rules import ALL
from iriai.system.passwd_cache import PeerCredentials, find_login
from iriai.system.procfs import read_process

LOGINS = "/run/systemd/users"
"""Where logind, and elogind, keep a file of each user who has logged in."""
LOGIN_BYTES_MAX = 1 << 16
NAME_MAX = 64
DEPTH_MAX = 256
"""So many processes above an agent are looked at; one that is deeper is not heard."""
STATES = frozenset({"active", "online"})
"""Of a user who has a session; not: closing, lingering."""


class NamedUsers(NamedTuple):
    """Those who are heard without having logged in."""

    names: Mapping[int, str]
    """By user id: root, whoever the machine runs as, and `[owner] users`."""
    everybody: bool = False
    """Whether these are all users."""


def named_users(owners: tuple[str, ...]) -> NamedUsers:
    """Return root, whoever this process runs as, and `[owner] users`, as far as they exist."""
    users: tuple[int | str, ...] = (0, os.geteuid(), *owners)
    found = [find_login(each) for each in users]
    names = {each.uid: each.name for each in found if each is not None}
    return NamedUsers(names, ALL in owners)


class AgentNotHeard(Exception):
    """An agent is refused; the text says why."""


class SessionUsers:
    """Those of one machine."""

    def __init__(self, named: NamedUsers, launcher: int, logins: str = LOGINS) -> None:
        """Tasks are the processes below `launcher`."""
        self._named = named
        self._launcher = launcher
        self._logins = logins

    def name_of(self, peer: PeerCredentials) -> str:
        """Return the name of the user whose agent this is.

        Raises `AgentNotHeard`. No directory service is asked: it may be slow.
        """
        name = self._named.names.get(peer.uid) or self._logged_in(peer.uid)
        if not name and not self._named.everybody:
            raise AgentNotHeard(
                "this user has no login session here; [owner] users in iriai.toml names others"
            )
        if self._may_be_task(peer.pid):
            raise AgentNotHeard("tasks of iriai do not count as its owner")
        return name or f"user id {peer.uid}"

    def _logged_in(self, uid: int) -> str:
        """Return the name of a user who has logged in; empty: they have not."""
        try:
            with open(f"{self._logins}/{uid}", encoding="utf-8", errors="replace") as file:
                lines = file.read(LOGIN_BYTES_MAX).splitlines()
        except OSError:
            return ""
        fields = dict(line.split("=", 1) for line in lines if "=" in line)
        has_session = fields.get("STATE") in STATES and bool(fields.get("SESSIONS"))
        return fields.get("NAME", "")[:NAME_MAX] if has_session else ""

    def _may_be_task(self, pid: int) -> bool:
        """Return whether a process is below the launcher, or that cannot be told.

        All processes of tasks are: it takes in their orphans. 0 is one outside of this namespace.
        """
        for _ in range(DEPTH_MAX):
            if pid == 0:
                return False
            process = read_process(pid)
            if pid == self._launcher or process is None:
                return True
            pid = process.parent
        return True
