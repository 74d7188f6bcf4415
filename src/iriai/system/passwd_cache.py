"""Users and groups of this machine, remembered for a while: a directory service may be slow."""

from __future__ import annotations

import grp
import os
import pwd
import time
from collections.abc import Callable
from typing import NamedTuple

REMEMBERED_MAX = 4096
"""People remembered at once; a larger site asks again a little more often."""
REMEMBERED_S = 60.0
"""A person who joins or leaves a group is known as such after at most this long."""


class Person(NamedTuple):
    """A user of this machine."""

    uid: int
    name: str
    group: str
    """The primary Unix group."""
    groups: tuple[str, ...]
    """All Unix groups, the primary one first."""


class UnixUsers:
    """Looks people up, and remembers them. `clock` is steady seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: dict[int | str, tuple[float, Person | None]] = {}

    def by_uid(self, uid: int) -> Person | None:
        """The user with this id; None where it has no name."""
        return self._remembered(uid)

    def by_name(self, name: str) -> Person | None:
        """The user with this name; None where there is none."""
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


def _look_up(key: int | str) -> Person | None:
    try:
        entry = pwd.getpwuid(key) if isinstance(key, int) else pwd.getpwnam(key)
    except (KeyError, OverflowError, ValueError):
        return None
    gids = os.getgrouplist(entry.pw_name, entry.pw_gid)
    ordered = [entry.pw_gid, *(gid for gid in gids if gid != entry.pw_gid)]
    names = tuple(_group_name(gid) for gid in ordered)
    return Person(entry.pw_uid, entry.pw_name, names[0], names)


def _group_name(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)
