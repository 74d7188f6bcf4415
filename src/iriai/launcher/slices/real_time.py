"""Real-time priority for one process, bounded, and a group that has time for it."""

from __future__ import annotations

import ctypes
import os
import resource
from contextlib import suppress

PRIORITY = 2
"""Above the launcher's, which has the lowest."""
WITHOUT_REST_S = 1
"""Processor time without a pause after which the kernel ends it: it would keep others out."""
_CPU_MOUNT = "/sys/fs/cgroup/cpu"
_LOCK_USED = 7
"""MCL_CURRENT, MCL_FUTURE, MCL_ONFAULT."""
_libc = ctypes.CDLL(None, use_errno=True)


def take_real_time(pid: int = 0) -> bool:
    """Run `pid` (0: this process) before all ordinary ones; return False if that is not permitted.

    What it starts does not inherit that. Where version 1 of control groups gives real-time priority
    a budget for each group (CONFIG_RT_GROUP_SCHED), and its own group has none, it moves to the
    nearest one above that has.
    """
    if _set(pid):
        return True
    try:
        move_to_budget(pid or os.getpid())
    except OSError:
        return False
    return _set(pid)


def is_real_time(pid: int = 0) -> bool:
    """Return whether `pid` runs before all ordinary processes."""
    try:
        policy = os.sched_getscheduler(pid) & ~os.SCHED_RESET_ON_FORK
    except OSError:
        return False
    return policy in (os.SCHED_FIFO, os.SCHED_RR)


def bound_real_time() -> None:
    """Have the kernel end this process if it runs at that priority without ever waiting."""
    _, most = resource.getrlimit(resource.RLIMIT_RTTIME)
    bound = WITHOUT_REST_S * 1_000_000
    if most != resource.RLIM_INFINITY:
        bound = min(bound, most)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_RTTIME, (bound, bound))


def lock_memory() -> bool:
    """Keep what this process uses in memory; return False if that is not permitted."""
    return bool(_libc.mlockall(_LOCK_USED) == 0)


def _set(pid: int) -> bool:
    try:
        policy = os.SCHED_RR | os.SCHED_RESET_ON_FORK
        os.sched_setscheduler(pid, policy, os.sched_param(PRIORITY))
    except OSError:
        return False
    return True


def move_to_budget(pid: int, proc: str = "/proc", mount: str = _CPU_MOUNT) -> None:
    """Move a process to the nearest group above its own with real-time budget. Raises OSError."""
    with open(f"{proc}/{pid}/cgroup", encoding="utf-8") as file:
        lines = [line.rstrip("\n").split(":", 2) for line in file]
    group = next((path for _, names, path in lines if "cpu" in names.split(",")), None)
    while group and group != "/":
        group = os.path.dirname(group)
        directory = mount + group.rstrip("/")
        with open(f"{directory}/cpu.rt_runtime_us", encoding="ascii") as file:
            has_budget = int(file.read()) != 0
        if has_budget:
            with open(f"{directory}/cgroup.procs", "w", encoding="ascii") as file:
                file.write(str(pid))
            return
