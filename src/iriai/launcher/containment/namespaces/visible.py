"""Paths of the machine that a task with private /tmp and /dev/shm still needs.

By the entry of /tmp in which it lies, not by its own path: so nothing has to be looked up below
what users own. The entry is protected as it always is; a task sees of it what its user may see.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from iriai.model.job import JobSpec
from iriai.system.passwd_cache import Login

TMP, SHM = "/tmp", "/dev/shm"  # noqa: S108 - this is about making them private
PLACES = (TMP, SHM)
KEPT = 256
"""Cached results: a user submits most jobs from the same place."""


class Visible(NamedTuple):
    """Entries of the machine's /tmp and /dev/shm that are visible; None: all of them."""

    tmp: frozenset[str] | None = frozenset()
    shm: frozenset[str] | None = frozenset()

    def joined(self, other: Visible) -> Visible:
        """Return what is visible in either."""
        return Visible(_joined(self.tmp, other.tmp), _joined(self.shm, other.shm))


EVERYTHING = Visible(None, None)


def visible_below(paths: Iterable[str]) -> Visible:
    """Return the entries above these paths; relative paths have none."""
    result = Visible()
    for path in paths:
        if path.startswith(PLACES):
            result = result.joined(Visible(_part(path, TMP), _part(path, SHM)))
    return result


def visible_for(spec: JobSpec, login: Login) -> Visible:
    """Return what the tasks of `spec` need.

    A working directory /tmp makes all of it visible; a home or an output there does not.
    """
    programs = tuple(each[0] for each in (spec.command, *spec.pipes) if each)
    return _visible_for(spec.working_directory, programs, spec.output, spec.error, login.home)


@lru_cache(maxsize=KEPT)
def _visible_for(
    directory: str, programs: tuple[str, ...], output: str, error: str, home: str
) -> Visible:
    outputs = [os.path.dirname(os.path.join(directory, each)) for each in (output, error) if each]
    others = [each for each in (home, *outputs) if os.path.normpath(each) not in PLACES]
    return visible_below([directory, *(each for each in programs if "/" in each), *others])


def _part(path: str, place: str) -> frozenset[str] | None:
    """Return the entry of `place` above `path`; None: `path` is the place."""
    whole = os.path.normpath(path)
    if whole == place:
        return None
    if not whole.startswith(f"{place}/"):
        return frozenset()
    return frozenset((whole[len(place) + 1 :].partition("/")[0],))


def _joined(one: frozenset[str] | None, other: frozenset[str] | None) -> frozenset[str] | None:
    return None if one is None or other is None else one | other
