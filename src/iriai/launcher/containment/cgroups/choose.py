"""Chooses, controller by controller, what keeps tasks together and limits them here."""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from typing import NamedTuple

from iriai.launcher.containment.cgroups.controllers import read_pids, write_file
from iriai.launcher.containment.cgroups.devices import Nodes
from iriai.launcher.containment.cgroups.freezer import find_freezer
from iriai.launcher.containment.cgroups.hierarchy import ControllerMount, find_places
from iriai.launcher.containment.cgroups.pool import Pool
from iriai.launcher.containment.container import Containments
from iriai.launcher.containment.process_tree import ProcessTrees

log = logging.getLogger(__name__)

LEAF = "iriai-launcher"
"""Where the launcher moves in version 2: a group with members cannot have children with limits."""
NO_CARDS = "no paths are kept", "no GPUs were found, and machine.gpu_devices names none"
_USED = ("pids", "memory", "cpu", "cpuacct")


class CgroupSupport(NamedTuple):
    """The control groups that were found to work."""

    containers: Containments
    places: dict[str, ControllerMount]
    """The parent group of each controller in use; empty without control groups."""
    refused: dict[str, str]
    """Controllers that exist but could not be used, and why."""
    device_places: tuple[ControllerMount, ...] = ()
    """Where groups that deny devices may be made, the preferred first; not tried yet."""
    freezing: ControllerMount | None = None
    """The parent group of freezers; None: tasks are suspended by signals."""
    freezing_note: str = ""
    """Why no better freezer is used."""

    @property
    def parents(self) -> tuple[str, ...]:
        """The parent groups."""
        places = list(self.places.values())
        places += [self.freezing] if self.freezing is not None else []
        return tuple(dict.fromkeys(place.directory for place in places))

    @property
    def account(self) -> tuple[str, int]:
        """Return the group above all tasks that counts processor time, and its version.

        Empty: there is none.
        """
        place = self.places.get("cpuacct")
        return ("", 1) if place is None else (place.directory, place.version)


def choose(name: str, isolation: str) -> CgroupSupport:
    """Make parent groups called `name` and try each controller in them.

    `isolation` is auto, v1, v2 or none: which versions may be used.
    """
    refused: dict[str, str] = {}
    usable: dict[str, ControllerMount] = {}
    found = _found(isolation)
    for controller, place in _wanted(found).items():
        try:
            usable[controller] = _try(controller, place, name)
        except OSError as error:
            refused[controller] = f"{place.directory}: {error.strerror}"
            log.info("control group controller %s is not usable: %s", controller, error)
    if not usable:
        note = "there are no control groups"
        return CgroupSupport(ProcessTrees(os.getpid()), {}, refused, freezing_note=note)
    freezing, note = find_freezer(found, name)
    devices = (found.get("devices"), found.get("unified"))
    named = (ControllerMount(each.version, f"{each.directory}/{name}") for each in devices if each)
    pool = Pool(usable, freezing)
    return CgroupSupport(pool, usable, refused, tuple(named), freezing, note)


def keep_devices(choice: CgroupSupport, cards: tuple[Nodes, ...]) -> tuple[str, str]:
    """Deny each of `cards` to the tasks that it is not assigned to; return by which mechanism.

    The second text explains what is missing, if something is.
    """
    pool = choice.containers
    if not isinstance(pool, Pool):
        return ("not kept", "there are no control groups") if cards else NO_CARDS
    if not cards:
        pool.keep_devices(None, ())
        return NO_CARDS
    why = "neither the devices controller of version 1 nor version 2 groups are mounted"
    for place in choice.device_places:
        try:
            _try_devices(place, cards)
        except OSError as error:
            why = f"{place.directory}: {error.strerror}"
            log.info("devices cannot be kept by control groups: %s", why)
            continue
        pool.keep_devices(place, cards)
        return ("cgroup v1 devices", "") if place.version == 1 else ("device program", "")
    pool.keep_devices(None, ())
    return "not kept", why


def _try_devices(place: ControllerMount, cards: tuple[Nodes, ...]) -> None:
    """Deny and allow all of `cards` in a group below `place`. Raises OSError."""
    with suppress(FileExistsError):
        os.mkdir(place.directory)
    trial = Pool({})
    trial.keep_devices(place, cards)
    slot = trial.make("trial")
    try:
        if slot.devices is not None:
            slot.devices.allow(())
            slot.devices.allow(tuple(range(len(cards))))
    finally:
        slot.close()


def _found(isolation: str) -> dict[str, ControllerMount]:
    """Return the place of each controller that may be used."""
    if isolation == "none":
        return {}
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        mountinfo = file.read()
    with open("/proc/self/cgroup", encoding="utf-8") as file:
        membership = file.read().replace(f"/{LEAF}\n", "\n")
    found = find_places(mountinfo, membership, _controllers_in)
    if isolation in ("v1", "v2"):
        found = {name: place for name, place in found.items() if f"v{place.version}" == isolation}
    if "unified" in found and "cpuacct" not in found:
        found["cpuacct"] = found["unified"]  # every group of version 2 counts processor time
    return found


def _controllers_in(directory: str) -> str:
    try:
        with open(f"{directory}/cgroup.controllers", encoding="utf-8") as file:
            return file.read()
    except OSError:
        return ""


def _wanted(found: dict[str, ControllerMount]) -> dict[str, ControllerMount]:
    """Return the place of each controller to be tried, the one that counts members first."""
    wanted = {name: found[name] for name in _USED if name in found}
    if "unified" in found and "pids" not in found:
        wanted = {"unified": found["unified"], **wanted}
    return wanted


def _try(controller: str, place: ControllerMount, name: str) -> ControllerMount:
    """Make and remove a group of `controller` on trial; return its parent group."""
    parent = ControllerMount(place.version, f"{place.directory}/{name}")
    with suppress(FileExistsError):
        os.mkdir(parent.directory)
    if place.version == 2 and controller in ("memory", "pids", "cpu"):
        hand_down(controller, place.directory)
        write_file(parent.directory, "cgroup.subtree_control", f"+{controller}")
    trial = Pool({controller: parent})
    trial.make("trial").close()
    return parent


def hand_down(controller: str, directory: str) -> None:
    """Make a version 2 controller available to the groups below `directory`."""
    try:
        write_file(directory, "cgroup.subtree_control", f"+{controller}")
    except OSError:
        if read_pids(directory) != [os.getpid()]:
            raise
        with suppress(FileExistsError):
            os.mkdir(f"{directory}/{LEAF}")
        write_file(f"{directory}/{LEAF}", "cgroup.procs", str(os.getpid()))
        write_file(directory, "cgroup.subtree_control", f"+{controller}")
