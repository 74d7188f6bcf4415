"""The mechanism of each limit on this machine, in words for `doctor`."""

from __future__ import annotations

from iriai.launcher.containment.cgroups.choose import CgroupSupport
from iriai.launcher.contract.messages import Enforcement
from iriai.launcher.spawn.spawn import HELPER, helper_is_compiled
from iriai.launcher.tasks.task import CPU_SAMPLE_MIN_S, SAMPLE_S


def enforcement(choice: CgroupSupport, helper: tuple[str, ...]) -> tuple[Enforcement, ...]:
    """Return one row for each limit."""
    sampled = f"sampling every {SAMPLE_S:g} s"
    rows = [
        _row(choice, "cpu-shares", "cpu", "not enforced"),
        _row(choice, "memory", "memory", sampled),
        _row(choice, "processes", "pids", sampled),
        Enforcement("cpu-time", *_cpu_time(choice)),
        Enforcement("wall-time", "the launcher's timers"),
        _row(choice, "accounting", "cpuacct", "wait4", "of processes that ended"),
        _tree_kill(choice),
        _suspension(choice),
    ]
    if helper_is_compiled(helper):
        rows.append(Enforcement("spawn", "iriai-exec"))
    else:
        note = f"slower; there is no {HELPER}: install with a C compiler"
        rows.append(Enforcement("spawn", "python helper", note))
    return tuple(rows)


def _row(
    choice: CgroupSupport, limit: str, controller: str, otherwise: str, note: str = ""
) -> Enforcement:
    place = choice.places.get(controller)
    if place is None:
        return Enforcement(limit, otherwise, choice.refused.get(controller, note))
    return Enforcement(limit, f"cgroup v{place.version} {controller}")


def _cpu_time(choice: CgroupSupport) -> tuple[str, str]:
    place = choice.places.get("cpuacct")
    if place is None:
        return (
            "sampling and rlimit",
            f"each process is limited by itself, the sum every {SAMPLE_S:g} s",
        )
    note = f"checked when it could be reached, at most every {CPU_SAMPLE_MIN_S:g} s"
    return f"cgroup v{place.version} cpuacct", note


def _tree_kill(choice: CgroupSupport) -> Enforcement:
    if "pids" in choice.places:
        version = choice.places["pids"].version
        return Enforcement("tree-kill", f"cgroup v{version} pids")
    if choice.places:
        place = next(iter(choice.places.values()))
        return Enforcement("tree-kill", f"cgroup v{place.version} membership")
    return Enforcement("tree-kill", "subreaper, descent, session and mark")


def _suspension(choice: CgroupSupport) -> Enforcement:
    place = choice.freezing
    by = "signals" if place is None else f"cgroup v{place.version} freezer"
    return Enforcement("suspension", by, choice.freezing_note)
