"""Reasons for waiting, in words."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from iriai.model.reason import Rule
from iriai.wire.requests import Why

MACHINES_SHOWN_MAX = 8
"""Of those for which the same holds: a line of a terminal; `--json` has all."""

_MEANINGS: dict[str, str] = {
    Rule.NO_MACHINE_LARGE_ENOUGH: "no machine is large enough",
    Rule.MACHINE_BUSY: "the machine is busy",
    Rule.RUNNING_CAP: "the account runs as much as it may at once",
    Rule.BURST: "while others wait, the account has its part already",
    Rule.HELD: "it is held",
    Rule.DEPENDENCY: "it waits for others to end",
    Rule.ARRAY_THROTTLE: "as many of its tasks run as may at once",
    Rule.RESERVED_HEAD_AHEAD: "it would delay a job that was promised a start",
    Rule.RESERVED: "it has a promised start",
    Rule.OTHER_CLUSTERS: "other clusters have not started it either",
    Rule.PASSED_ON: "it was passed on to another cluster",
    Rule.TURN_OF_OTHERS: "it is the turn of others",
    Rule.AHEAD_IN_ACCOUNT: "other jobs of the account come first",
    Rule.MACHINE_UNKNOWN: "the machine is not known yet",
    Rule.ONE_PER_MACHINE: "it runs there already, and may run once at a time",
    Rule.NOT_EMPTY: "the machine is not empty",
    Rule.NO_LAUNCHER: "nothing can be started: the launcher is away",
    Rule.BACKED_OFF: "nothing is started for a while: starts have failed",
    Rule.STALE_CAPABILITY: "the machine's state has just changed",
    Rule.USER_NOT_ALLOWED: "the machine does not run this user's tasks",
    Rule.INPUT_ELSEWHERE: "what it reads from cannot be passed to that machine",
    Rule.REQUIREMENTS: "the machine does not meet what the job requires",
    Rule.OWNER_POLICY: "the owner of the machine does not want such a job there now",
    Rule.POLICY: "the policy of this cluster has not started it",
    Rule.STARTING: "it is being started",
    Rule.ENDING: "it is being ended",
}


def meaning_of(reason: Why) -> str:
    """What the rule means; its name where this client does not know it."""
    return _MEANINGS.get(reason.rule, reason.rule)


def reason_text(reason: Why) -> str:
    """One reason in a line: what it means, what is needed, what is there."""
    details = [f"needs {reason.needed}"] if reason.needed else []
    if reason.had:
        details.append(reason.had)
    return f"{meaning_of(reason)}: {'; '.join(details)}"


def alike(reasons: Iterable[Why]) -> list[Why]:
    """The reasons in their order, those that differ by the machine alone as one of all of them."""
    machines: dict[Why, list[str]] = {}
    for reason in reasons:
        machines.setdefault(msgspec.structs.replace(reason, machine=""), []).append(reason.machine)
    return [
        msgspec.structs.replace(reason, machine=_list_text(names))
        for reason, names in machines.items()
    ]


def _list_text(names: list[str]) -> str:
    more = len(names) - MACHINES_SHOWN_MAX
    return ", ".join(names[:MACHINES_SHOWN_MAX]) + (f" and {more} more" if more > 0 else "")


def reason_lines(reason: Why) -> str:
    """One reason in some lines, with the rule's name and the machine, or several."""
    parts = (("on", reason.machine), ("needs", reason.needed), ("there", reason.had))
    lines = [f"{meaning_of(reason)} ({reason.rule})"]
    return "\n".join(lines + [f"  {name:<6} {text}" for name, text in parts if text])
