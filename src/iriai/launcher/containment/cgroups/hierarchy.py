"""Detects the control group controllers of this machine, and the groups of this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

CONTROLLERS = ("memory", "pids", "cpu", "cpuacct", "devices", "freezer")
"""Those that the launcher uses; in version 2 `cpu` accounts too, every group can be frozen, and
there is no `devices`."""


class ControllerMount(NamedTuple):
    """The directory where groups of one controller can be created."""

    version: int
    directory: str
    """This process' own group: groups below it stay within what is granted to it."""


def find_places(
    mountinfo: str, membership: str, controllers_in: Callable[[str], str]
) -> dict[str, ControllerMount]:
    """Return the place of each controller in CONTROLLERS that is mounted, and of `unified`.

    `mountinfo` and `membership` are the texts of /proc/self/mountinfo and /proc/self/cgroup;
    `controllers_in` reads `cgroup.controllers` of a directory. A controller bound to version 1 is
    not listed there, so it is found in one of the two at most.
    """
    own = dict(_memberships(membership))
    places: dict[str, ControllerMount] = {}
    for kind, options, root, point in _mounts(mountinfo):
        if kind == "cgroup2":
            directory = _below(point, root, own.get("", "/"))
            places["unified"] = ControllerMount(2, directory)
            for controller in controllers_in(directory).split():
                if controller in CONTROLLERS:
                    places[controller] = ControllerMount(2, directory)
        else:
            for controller in CONTROLLERS:
                if controller in options:
                    directory = _below(point, root, own.get(controller, "/"))
                    places.setdefault(controller, ControllerMount(1, directory))
    return places


def find_mounts() -> list[tuple[str, list[str], str, str]]:
    """Return (type, super options, root, mount point) of each hierarchy of this process."""
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        return list(_mounts(file.read()))


def _mounts(mountinfo: str) -> Iterator[tuple[str, list[str], str, str]]:
    """Yield (type, super options, root, mount point) of each control group file system."""
    for line in mountinfo.splitlines():
        before, separator, after = line.partition(" - ")
        fields, rest = before.split(), after.split()
        if separator and len(rest) >= 3 and rest[0] in ("cgroup", "cgroup2"):
            yield rest[0], rest[2].split(","), fields[3], fields[4]


def _memberships(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        _, names, path = line.split(":", 2)
        for name in names.split(","):
            yield name, path


def _below(point: str, root: str, path: str) -> str:
    """Return the directory of group `path` where the hierarchy from `root` on is mounted."""
    if root not in ("", "/"):
        path = path.removeprefix(root)
    return (point + "/" + path.strip("/")).rstrip("/")
