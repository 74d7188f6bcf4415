"""Explains why a job waits, by the rules of the pass; the first refusal comes first.

After a pass no waiting task could start, so one of the rules below refuses each waiting job. The
first reason is the one to change: without it the job would start, or be the next to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iriai.broker.machines.machine_view import MachineView
from iriai.broker.queue.entries import QueuedJob
from iriai.broker.scheduling.explain_ranks import explain_ranks
from iriai.broker.scheduling.machine_reasons import (
    distance,
    mismatches,
    on_machine,
    out_of_question,
    summary,
    too_large,
    unreadable,
)
from iriai.broker.state.reserved_heads import could_hold
from iriai.broker.state.state import BrokerState
from iriai.model.ids import JobId
from iriai.model.instant import Instant
from iriai.model.reason import Reason, Rule
from iriai.protocol.messages.scheduling import Want

if TYPE_CHECKING:
    pass


def explain(state: BrokerState, job: JobId, now: Instant) -> list[Reason]:
    """Return why the first waiting task of `job` has not started; the main reason first."""
    entry = state.queues.entries.get(job)
    if entry is None:
        return [
            Reason(Rule.STARTING, "the broker to know of it", "its home has not reported it yet")
        ]
    if entry.kind.key.is_stopped:
        return [queue_stopped(state, entry)]
    if entry.want.reservation is not None:
        from iriai.broker.scheduling.explain_inside import explain_inside

        return explain_inside(state, entry, now) + _higher(state, entry)
    if not state.machines:
        return [Reason(Rule.MACHINE_UNKNOWN, "a machine", "none has reported yet")]
    resources = entry.want.resources
    views = list(state.machines.values())
    able = [view for view in views if resources.fits_in(view.calendar.capacity)]
    if not able:
        return summary([[too_large(resources, view)] for view in views])
    if entry.kind.is_choosy and not any(could_hold(entry.kind, view) for view in able):
        return summary([out_of_question(state, entry, view) for view in able])
    cap = state.running_cap(entry)
    if not cap.allowed:
        return [cap.reason()]
    ahead = _ahead_in_account(state, entry)
    if entry.kind.is_wide:
        found = explain_ranks(state, entry, ahead, now)
    else:
        of_machines = [on_machine(state, entry, view, ahead, now) for view in able]
        found = summary(sorted(of_machines, key=distance))
    return found + _higher(state, entry)


def _higher(state: BrokerState, entry: QueuedJob) -> list[Reason]:
    """Return that tasks of higher queues wait, which start first where they can."""
    level = entry.precedence.level
    if not level:
        return []
    others = [each for each in state.queues.entries.values() if each.precedence.level < level]
    count = sum(each.count for each in others if each.kind.is_possible)
    if not count:
        return []
    waits = "task waits" if count == 1 else "tasks wait"
    had = f"{count} {waits} there; this one counts in queue {level}"
    return [Reason(Rule.HIGHER_QUEUE, "what higher queues leave", had)]


def queue_stopped(state: BrokerState, entry: QueuedJob) -> Reason:
    """Return the reason of a job whose queue starts nothing."""
    configuration = state.settings.configuration
    number = entry.want.queue
    had = f"there is no queue {number}"
    if configuration.queue(number) is not None:
        had = f"queue {number} takes jobs and starts none"
    active = [each for each in range(configuration.queue_count) if configuration.is_active(each)]
    needed = "an operator to start it"
    if active:
        needed += f", or another queue ({', '.join(map(str, active))})"
    return Reason(Rule.QUEUE_STOPPED, needed, had)


def never_runs(state: BrokerState, want: Want) -> list[Reason]:
    """Return the clauses that no large enough machine will ever meet; empty: one may."""
    problem = state.matching.problem_of(want)
    if problem:
        return [unreadable(problem)]
    key = state.matching.key(want)
    if key is None:
        return []
    demand = state.matching.begin().demand(key).enter()
    try:
        able = _large_enough(state, want)
        if not able or any(demand.may_admit(view.name) for view in able):
            return []
        return [mismatches(state, demand, view)[0] for view in able]
    finally:
        demand.leave()


def never_matching(state: BrokerState, want: Want) -> frozenset[str]:
    """Return the machines that could hold a rank of such a task, and will never match."""
    key = state.matching.key(want)
    if key is None:
        return frozenset()
    demand = state.matching.begin().demand(key).enter()
    try:
        able = _large_enough(state, want)
        return frozenset(view.name for view in able if not demand.may_admit(view.name))
    finally:
        demand.leave()


def _large_enough(state: BrokerState, want: Want) -> list[MachineView]:
    views = state.machines.values()
    return [view for view in views if want.resources.fits_in(view.calendar.capacity)]


def _ahead_in_account(state: BrokerState, entry: QueuedJob) -> Reason | None:
    """Return the reason if an earlier task of the account is over the running cap."""
    if state.cap_cpus is None:
        return None
    for line in entry.line.queue.order:
        if line.first >= entry.precedence:
            break
        ahead = state.queues.entry_of(line)
        if ahead.want.account != entry.want.account:
            continue
        cap = state.running_cap(ahead)
        if not cap.allowed:
            return Reason(
                Rule.AHEAD_IN_ACCOUNT,
                f"{ahead.want.job} to start first",
                f"{ahead.want.job} waits: {cap.reason().had}",
            )
    return None
