"""What a machine has, what runs there, and the standing of accounts."""

from __future__ import annotations

from iriai.broker.core import Broker
from iriai.config.sections import OrderSection
from iriai.jobs.views import amounts
from iriai.machine.core import Machine
from iriai.model.instant import Instant
from iriai.model.reason import Rule
from iriai.protocol.messages.effects import Part
from iriai.wire.reports import ShareRow, ShareTable


def room(machine: Machine) -> tuple[dict[str, int], dict[str, int]]:
    """Return the machine's capacity, and what of it is free, by name."""
    if Part.NODE not in machine.parts:
        return {}, {}
    return amounts(machine.node.settings.capacity), amounts(machine.node.calendar.free)


def work(machine: Machine) -> tuple[int, int, int]:
    """Return the numbers of unfinished jobs, waiting tasks and active tasks."""
    if Part.HOME not in machine.parts:
        return 0, 0, len(machine.node.running())
    jobs = machine.home.jobs.values()
    return len(jobs), sum(job.waiting for job in jobs), sum(job.active for job in jobs)


def own_trouble(
    machine: Machine, load_problem: str, failure: Exception | None, *, is_alone: bool
) -> list[str]:
    """Return what is wrong with the machine itself, one sentence each.

    `is_alone` tells that it has no launcher and needs one, `load_problem` why the load cannot be
    measured, `failure` why the store cannot be written.
    """
    unable = machine.node.unavailable() if Part.NODE in machine.parts else None
    backed_off = unable.had if unable is not None and unable.rule is Rule.BACKED_OFF else ""
    words = (
        "no launcher is connected: nothing can be started" if is_alone else "",
        f"tasks are not started: the launcher cannot: {backed_off}" if backed_off else "",
        load_problem,
        _owner_trouble(machine),
        _policy_trouble(machine),
        "" if failure is None else f"the store cannot be written: {failure}",
    )
    return [each for each in words if each]


def _owner_trouble(machine: Machine) -> str:
    """Return which expressions of the owner had no value for some task; empty: none."""
    owner = machine.node.owner if Part.NODE in machine.parts else None
    if owner is None or owner.judge is None or not owner.judge.problems:
        return ""
    found = "; ".join(f"{step}: {what}" for step, what in owner.judge.problems.items())
    return f"[owner] counts as in use for some tasks, since an expression has no value: {found}"


def _policy_trouble(machine: Machine) -> str:
    """Return what the policy of the broker here did wrong last; empty: nothing."""
    mistake = machine.broker.policy_mistake if Part.BROKER in machine.parts else None
    if mistake is None:
        return ""
    return f"the policy erred, and the built-in order goes on for a while: {mistake.one_line}"


def share_table(broker: Broker, order: OrderSection, now: Instant, note: str = "") -> ShareTable:
    """Return the standing of all accounts; `note` says what is missing."""
    shares = broker.shares(now)
    rows = tuple(ShareRow(each.account.group, each.account.user, *each[1:]) for each in shares)
    factor = order.offpeak_factor if broker.offpeak.is_offpeak else None
    of_order = (order.window_s, note, order.even)
    return ShareTable(order.name, order.half_life_s, rows, factor, *of_order)
