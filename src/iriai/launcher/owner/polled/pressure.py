"""For how much of the time programs of the owner wait for disks and memory.

The pressure of the whole machine counts what our own tasks wait for; so the groups of users' own
sessions are looked at, which there are in version 2 of control groups.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from iriai.launcher.containment.cgroups.hierarchy import find_places
from iriai.launcher.owner.polled.polled_sensor import RELIEF, Threshold
from iriai.launcher.owner.polled.reading import CannotLook, names_in, read_text
from iriai.model.owner import SignKind

USERS_GROUP = "user.slice"
"""Where systemd puts what people have started."""
GROUPS = ".slice", ".scope", ".service"
"""How systemd's groups end; files of the kernel lie beside them."""
GROUPS_MAX = 256
"""Of one machine; others are left out."""
DEPTH_MAX = 8
MOUNTS_BYTES_MAX = 1 << 20
KINDS = "io", "memory"
_SOME = re.compile(r"some avg10=(\d{1,3}\.\d{2}) ")
NEEDS = "it needs control groups of version 2 with pressure, and sessions of users in them"


class PressureProbe:
    """Looks at the groups of sessions that our tasks are not in."""

    kind = SignKind.PRESSURE

    def __init__(self, most_percent: float, launcher: int, proc: str = "/proc") -> None:
        self._most_percent = most_percent
        self._threshold = Threshold(most_percent, most_percent * RELIEF)
        self._launcher, self._proc = launcher, proc
        self.holds = False
        self.note = ""

    def look(self, now_s: float) -> Iterator[None]:
        """Look for the highest; raises `CannotLook` where there is none, and OSError."""
        root, own = self._places()
        highest, where = -1.0, ""
        for group in _sessions(root, own):
            yield
            for kind in KINDS:
                found = _percent(f"{group}/{kind}.pressure")
                if found is not None and found > highest:
                    highest, where = found, kind
        if highest < 0.0:
            raise CannotLook(f"{root}/{USERS_GROUP}: {NEEDS}")
        self.holds = self._threshold.take(highest)
        self.note = f"{highest:.0f} % of the time ({where}), the bound is {self._most_percent:g}"

    def _places(self) -> tuple[str, str]:
        """Return the root of control groups and the launcher's group, above those of tasks."""
        mounts = read_text(f"{self._proc}/self/mountinfo", MOUNTS_BYTES_MAX)
        membership = read_text(f"{self._proc}/{self._launcher}/cgroup")
        try:
            roots = find_places(mounts, "0::/", lambda _: "")
            owns = find_places(mounts, membership.strip(), lambda _: "")
        except ValueError:
            raise CannotLook(NEEDS) from None
        if "unified" not in roots:
            raise CannotLook(NEEDS)
        return roots["unified"].directory, owns["unified"].directory

    def close(self) -> None:
        """It has nothing open."""


def _sessions(root: str, own: str) -> Iterator[str]:
    """Yield the groups of people that are neither the launcher's nor above it."""
    waiting, count = [(f"{root}/{USERS_GROUP}", 0)], 0
    for group, depth in waiting:  # grows while it is walked
        count += 1
        if count > GROUPS_MAX:
            return
        if own == group:
            continue
        if not own.startswith(f"{group}/"):
            yield group
        elif depth < DEPTH_MAX:
            names = names_in(group, GROUPS_MAX)
            waiting += [(f"{group}/{name}", depth + 1) for name in names if name.endswith(GROUPS)]


def _percent(path: str) -> float | None:
    """Return for how much of the last ten seconds somebody waited; None: it is not measured."""
    try:
        found = _SOME.match(read_text(path))
    except OSError:
        return None
    return float(found[1]) if found else None
