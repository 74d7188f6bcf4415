"""Users and groups of this machine, remembered for a while: a directory service may be slow."""

from __future__ import annotations

import grp
import os
import pwd
import socket
import struct
import time
from collections.abc import Callable
from typing import NamedTuple

_CREDENTIALS = struct.Struct("iII")


class PeerCredentials(NamedTuple):
    """The process that connected, as of that moment."""

    pid: int
    uid: int
    gid: int


def peer_of(connection: socket.socket) -> PeerCredentials:
    """Return the process at the other end of a connected Unix socket. Raises OSError."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return PeerCredentials(*_CREDENTIALS.unpack(raw))


REMEMBERED_MAX = 4096
"""People cached at once; a larger site asks again a little more often."""
REMEMBERED_S = 60.0
"""A change of groups takes effect after at most this long."""


class Person(NamedTuple):
    """A user of this machine."""

    uid: int
    name: str
    group: str
    """The primary Unix group."""
    groups: tuple[str, ...]
    """All Unix groups, the primary one first."""


class Login(NamedTuple):
    """A user of this machine, as tasks are run."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    """Ids, the primary one among them."""
    home: str
    shell: str


class UnixUsers:
    """Looks users up and caches them. `clock` returns steady seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: dict[int | str, tuple[float, Person | None]] = {}

    def by_uid(self, uid: int) -> Person | None:
        """Return the user with this id; None if it has no name."""
        return self._remembered(uid)

    def by_name(self, name: str) -> Person | None:
        """Return the user with this name; None if there is none."""
        return self._remembered(name)

    def _remembered(self, key: int | str) -> Person | None:
        now_s = self._clock()
        held = self._known.get(key)
        if held is not None and now_s < held[0]:
            return held[1]
        if len(self._known) >= REMEMBERED_MAX:
            self._known.clear()
        person = _look_up(key)
        self._known[key] = (now_s + REMEMBERED_S, person)
        return person


def find_login(user: int | str) -> Login | None:
    """Look up the user with this id or name, without a cache; None if there is none."""
    try:
        entry = pwd.getpwuid(user) if isinstance(user, int) else pwd.getpwnam(user)
    except (KeyError, OverflowError, ValueError):  # no user has a name with a NUL
        return None
    name, gid = entry.pw_name, entry.pw_gid
    groups = tuple(os.getgrouplist(name, gid))
    return Login(name, entry.pw_uid, gid, groups, entry.pw_dir, entry.pw_shell)


def user_words(uid: int) -> str:
    """Return the user with this id for a message: by name, if there is one."""
    login = find_login(uid)
    return f"user '{login.name}'" if login else f"user id {uid}"


def is_unix_group(name: str) -> bool:
    """Return whether this machine has a group of this name."""
    try:
        grp.getgrnam(name)
    except (KeyError, ValueError):  # no group has a name with a NUL
        return False
    return True


def _look_up(key: int | str) -> Person | None:
    login = find_login(key)
    if login is None:
        return None
    ordered = [login.gid, *(gid for gid in login.groups if gid != login.gid)]
    names = tuple(_group_name(gid) for gid in ordered)
    return Person(login.uid, login.name, names[0], names)


def _group_name(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)
