"""Texts of the reasons for which jobs and tasks wait."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from iriai.model.reason import Rule
from iriai.wire.requests import Why

MACHINES_SHOWN_MAX = 8
"""Machines listed for one reason: a line of a terminal; `--json` has all."""

_MEANINGS: dict[str, str] = {
    Rule.NO_MACHINE_LARGE_ENOUGH: "no machine is large enough",
    Rule.NO_POOL: "no pool is large enough for its ranks",
    Rule.POOL_BUSY: "no pool has room for all its ranks now",
    Rule.MACHINE_BUSY: "the machine is busy",
    Rule.RUNNING_CAP: "the account runs as much as it may at once",
    Rule.BURST: "other accounts wait, and this one has its share already",
    Rule.HELD: "it is held",
    Rule.DEPENDENCY: "it waits for other jobs to end",
    Rule.ARRAY_THROTTLE: "as many of its tasks run as may run at once",
    Rule.RESERVED_HEAD_AHEAD: "it would delay a job that was promised a start",
    Rule.RESERVED: "it has a promised start",
    Rule.OTHER_CLUSTERS: "other clusters have not started it either",
    Rule.PASSED_ON: "it was forwarded to another cluster",
    Rule.TURN_OF_OTHERS: "it is the turn of other accounts",
    Rule.AHEAD_IN_ACCOUNT: "other jobs of the account come first",
    Rule.MACHINE_UNKNOWN: "the machine is not known yet",
    Rule.ONE_PER_MACHINE: "it runs on that machine already, and may run once at a time",
    Rule.NOT_EMPTY: "the machine is not empty",
    Rule.NO_LAUNCHER: "nothing can be started: the launcher is offline",
    Rule.BACKED_OFF: "nothing is started for a while: starts have failed",
    Rule.STALE_CAPABILITY: "the machine's state has just changed",
    Rule.USER_NOT_ALLOWED: "the machine does not run tasks of this user",
    Rule.REQUIREMENTS: "the machine does not meet what the job requires",
    Rule.OWNER_POLICY: "the owner of the machine does not permit such a job now",
    Rule.QUEUE_STOPPED: "its queue starts nothing",
    Rule.HIGHER_QUEUE: "a higher queue comes first",
    Rule.POOL_FULL: "its pool runs as many tasks as it may",
    Rule.POLICY: "the policy of this cluster has not started it",
    Rule.STARTING: "it is being started",
    Rule.ENDING: "it is being ended",
    Rule.SUSPENDED: "it does not run at present",
    Rule.RESERVED_AHEAD: "a reservation begins before it would have ended",
    Rule.NOT_RESERVED: "its reservation is not open for it there",
}


def meaning_of(reason: Why) -> str:
    """Return the meaning of the rule; its name if this client does not know it."""
    return _MEANINGS.get(reason.rule, reason.rule)


def reason_text(reason: Why) -> str:
    """Return one reason in a line: its meaning, what is needed, what is there."""
    details = [f"needs {reason.needed}"] if reason.needed else []
    if reason.had:
        details.append(reason.had)
    return f"{meaning_of(reason)}: {'; '.join(details)}"


def reasons_text(reasons: Iterable[Why]) -> str:
    """Return each reason once, one per line; with several lines each names its machines."""
    merged = alike(reasons)
    on = (f" (on {each.machine})" if each.machine and len(merged) > 1 else "" for each in merged)
    return "\n".join(f"{reason_text(each)}{where}" for each, where in zip(merged, on, strict=True))


def alike(reasons: Iterable[Why]) -> list[Why]:
    """Merge reasons that differ by the machine alone; keep their order."""
    machines: dict[Why, dict[str, None]] = {}
    for reason in reasons:
        names = machines.setdefault(replace(reason, machine=""), {})
        if reason.machine:
            names[reason.machine] = None
    return [replace(reason, machine=_list_text([*names])) for reason, names in machines.items()]


def _list_text(names: list[str]) -> str:
    more = len(names) - MACHINES_SHOWN_MAX
    return ", ".join(names[:MACHINES_SHOWN_MAX]) + (f" and {more} more" if more > 0 else "")


def reason_lines(reason: Why) -> str:
    """Return one reason in several lines, with the rule's name and its machines."""
    parts = (("on", reason.machine), ("needs", reason.needed), ("there", reason.had))
    lines = [f"{meaning_of(reason)} ({reason.rule})"]
    return "\n".join(lines + [f"  {name:<6} {text}" for name, text in parts if text])
