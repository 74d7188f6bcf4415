"""Finds how background tasks are kept behind the owner's programs here (ADR 0123).

The kernel divides processor time level by level. So one parent of all of them has to be idle where
the groups of the owner's programs are: at the top of the hierarchy, or of the part of it that this
launcher may change. Set on each task's group, or below the launcher's own, it would have no effect.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from functools import partial

from iriai.launcher.containment.cgroups.choose import CgroupSupport, hand_down
from iriai.launcher.containment.cgroups.controllers import make_afresh, write_file
from iriai.launcher.containment.cgroups.freezer import move_processes
from iriai.launcher.containment.cgroups.hierarchy import ControllerMount, find_mounts
from iriai.launcher.containment.cgroups.lowered_group import make_lowered
from iriai.launcher.containment.cgroups.pool import Pool
from iriai.launcher.containment.container import Background
from iriai.launcher.containment.process_tree import ProcessTrees
from iriai.launcher.containment.sessions import LOWEST, has_sessions

ENDING = "-idle"
"""What the parent's name has behind that of the other parents."""
_LEAST = {1: ("cpu.shares", "2"), 2: ("cpu.weight", "1")}
"""By version: the file and the smallest weight of a group."""
_OF_DISKS = {1: ("blkio.bfq.weight", "blkio.weight"), 2: ("io.bfq.weight", "io.weight")}
_LEAST_OF_DISKS = "1", "10"
"""Of the kinds of weights, the older schedulers take none below 10."""
_TO_SHARE = ("memory", "pids", "cpu")
"""Controllers of version 2 that are handed down to the groups of tasks."""
GIVES_WAY = "b="


def lower_tasks(choice: CgroupSupport, name: str) -> Background:
    """Have background tasks that start from now on be in the idle class, as far as that works.

    `name` is that of the parent groups.
    """
    background, containers = find_background(choice, name), choice.containers
    if isinstance(containers, Pool):
        containers.lower(background, partial(make_lowered, containers, background))
    elif isinstance(containers, ProcessTrees):
        containers.lower(background)
    return background


def find_background(choice: CgroupSupport, name: str) -> Background:
    """Make the idle parent, called after `name`, and try it; else find what works without it."""
    cpu = choice.places.get("cpu")
    notes = ["no group divides processor time" if cpu is None else ""]
    if cpu is not None:
        shared = [each for each in _TO_SHARE if choice.places.get(each) == cpu]
        for place in _from_the_top(cpu.directory, cpu.version):
            idle = f"{place}/{name}{ENDING}"
            try:
                word = _make(idle, cpu, shared if cpu.version == 2 else [])
            except OSError as error:
                notes.append(f"{idle}: {error.strerror or error}")
                continue
            by = f"cgroup v{cpu.version} {word}"
            disk, disk_usual = _disk_group(name, idle, cpu.version)
            return Background(
                (GIVES_WAY,), by, f"below {place}", cpu.directory, idle, disk, disk_usual
            )
    words = "; ".join(each for each in notes if each)
    if has_sessions():
        by, joins = "nice value of sessions (autogroup)", (f"{GIVES_WAY}{LOWEST}",)
        return Background(joins, by, words, by_session=True)
    return Background((GIVES_WAY,), "not lowered", f"{words}; the kernel has no autogroups")


def _from_the_top(usual: str, version: int) -> Iterator[str]:
    """Yield the groups above `usual`, from the top of its hierarchy on."""
    kind = "cgroup" if version == 1 else "cgroup2"
    tops = [
        point
        for found, _, _, point in find_mounts()
        if found == kind and f"{usual}/".startswith(f"{point}/")
    ]
    place = max(tops, key=len, default=os.path.dirname(usual))
    own = os.path.dirname(usual)
    for part in ("", *own.removeprefix(place).strip("/").split("/")):
        if part:
            place = f"{place}/{part}"
        yield place


def _make(idle: str, usual: ControllerMount, shared: list[str]) -> str:
    """Make the idle parent, and try it with a process; return by what it is idle.

    Raises OSError.
    """
    for controller in shared:
        hand_down(controller, os.path.dirname(idle))
    with suppress(FileExistsError):
        os.mkdir(idle)
    try:
        for controller in shared:
            write_file(idle, "cgroup.subtree_control", f"+{controller}")
        word = _be_idle(idle, usual.version)
        _try(idle, usual.directory)
    except OSError:
        with suppress(OSError):
            os.rmdir(idle)
        raise
    return word


def _be_idle(idle: str, version: int) -> str:
    try:
        write_file(idle, "cpu.idle", "1")
    except OSError:  # before Linux 5.15
        write_file(idle, *_LEAST[version])
        return f"least {_LEAST[version][0]}"
    return "cpu.idle"


def _try(*parents: str) -> None:
    """Move a process into a group below each parent, and end it in the last. Raises OSError.

    In the idle class it would take as long to end as the owner is busy.
    """
    groups = [f"{parent}/trial-{os.getpid()}" for parent in parents]
    pid = os.posix_spawnp("sleep", ["sleep", "60"], {})
    try:
        for group in groups:
            make_afresh(group)
            move_processes([pid], group)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        for group in groups:
            with suppress(OSError):
                os.rmdir(group)


def _disk_group(name: str, idle: str, version: int) -> tuple[str, str]:
    """Have disks serve background tasks last by a group, where there are weights.

    Returns a group of version 1 that they join for it, and the one of others; empty where there is
    none, or the idle parent does it.
    """
    if version == 2:
        with suppress(OSError):
            hand_down("io", os.path.dirname(idle))
            _weigh(idle, version)
        return "", ""
    for kind, options, _, point in find_mounts():
        if kind == "cgroup" and "blkio" in options:
            directory = f"{point}/{name}{ENDING}"
            with suppress(OSError):
                with suppress(FileExistsError):
                    os.mkdir(directory)
                if _weigh(directory, version):
                    return directory, point
                os.rmdir(directory)
    return "", ""


def _weigh(directory: str, version: int) -> bool:
    """Give a group the least weight; return whether it has one."""
    is_weighed = False
    for file in _OF_DISKS[version]:
        for weight in _LEAST_OF_DISKS:
            try:
                write_file(directory, file, weight)
            except FileNotFoundError:
                break
            except OSError:
                continue
            is_weighed = True
            break
    return is_weighed
