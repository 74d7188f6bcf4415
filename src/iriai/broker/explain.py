"""Why a job waits: the same rules as the pass, asked one by one, the first that says no leads.

After a pass nothing that could start still waits, so each waiting job is held back by a rule below.
What is named first is what to change: without it the job would start, or be the next to.
"""

from __future__ import annotations

from iriai.broker.machines import MachineView
from iriai.broker.queues import Entry
from iriai.broker.state import BrokerState
from iriai.model.ids import JobId
from iriai.model.instant import Instant
from iriai.model.reason import Reason, Rule
from iriai.model.resources import Resources, describe_amount
from iriai.policy.backfill import ReservedHead
from iriai.policy.calendar import OPEN_END_S


def explain(state: BrokerState, job: JobId, now: Instant) -> list[Reason]:
    """Why the first waiting task of `job` has not started; the main reason first."""
    entry = state.queues.entries.get(job)
    if entry is None:
        return [Reason(Rule.STARTING, "that the broker knows of it", "its home has not told yet")]
    if not state.machines:
        return [Reason(Rule.MACHINE_UNKNOWN, "a machine", "none has reported yet")]
    resources = entry.want.resources
    large_enough = [
        view for view in state.machines.values() if resources.fits_in(view.calendar.capacity)
    ]
    if not large_enough:
        return [too_large(resources, view) for view in state.machines.values()]
    cap = state.running_cap(entry)
    if not cap.allowed:
        return [cap.reason()]
    reasons = [reason for view in large_enough for reason in _on_machine(state, entry, view, now)]
    return sorted(reasons, key=lambda reason: reason.rule is Rule.NO_LAUNCHER)


def too_large(resources: Resources, view: MachineView) -> Reason:
    """That a machine could never hold `resources`."""
    resource, needed, there = resources.lacking_in(view.calendar.capacity)[0]
    return Reason(
        Rule.NO_MACHINE_LARGE_ENOUGH,
        describe_amount(resource, needed),
        f"the machine has {describe_amount(resource, there)}",
        view.name,
    )


def _on_machine(state: BrokerState, entry: Entry, view: MachineView, now: Instant) -> list[Reason]:
    if view.unavailable is not None:
        return [view.unavailable]
    reasons = []
    lacking = entry.want.resources.lacking_in(view.calendar.free)
    if lacking:
        reasons.append(_busy(state, lacking, view))
    head = state.reserved.get(view.name)
    if head is not None and head.job == entry.want.job:
        reasons.append(_reserved(head, now))
    elif head is not None and not head.tolerates(entry.want.resources, entry.stay_s, now.steady_s):
        reasons.append(_behind_head(head, now))
    return reasons or [_ahead_in_account(state, entry) or _starting(view)]


def _busy(
    state: BrokerState, lacking: tuple[tuple[str, int, int], ...], view: MachineView
) -> Reason:
    resource, needed, there = lacking[0]
    waiting = sum(queue.ready for queue in state.queues.waiting())
    accounts = len(state.queues.accounts)
    return Reason(
        Rule.MACHINE_BUSY,
        describe_amount(resource, needed),
        f"{describe_amount(resource, there)} free; waiting tasks: {waiting}, accounts: {accounts}",
        view.name,
    )


def _reserved(head: ReservedHead, now: Instant) -> Reason:
    """The job is the reserved head: its place is kept, nothing that fills in may delay it."""
    return Reason(Rule.RESERVED, "its place to become free", _start(head, now), head.machine)


def _behind_head(head: ReservedHead, now: Instant) -> Reason:
    return Reason(
        Rule.RESERVED_HEAD_AHEAD,
        "to end before the reserved head starts, or resources that it leaves",
        f"{head.job}: {_start(head, now)}",
        head.machine,
    )


def _start(head: ReservedHead, now: Instant) -> str:
    in_s = head.start_s - now.steady_s
    if in_s > OPEN_END_S / 2:
        return "it starts when tasks without a time limit have ended"
    return f"it starts in {max(0.0, in_s):.0f} s at the latest"


def _ahead_in_account(state: BrokerState, entry: Entry) -> Reason | None:
    """What comes first in the account is over the running cap, and what follows must not pass."""
    queue = state.queues.accounts[entry.want.account]
    for ahead in state.queues.first_of_classes(queue):
        cap = state.running_cap(ahead)
        if cap.allowed or not state.could_ever_run(ahead.want.resources):
            continue
        if ahead.precedence < entry.precedence:
            return Reason(
                Rule.AHEAD_IN_ACCOUNT,
                f"{ahead.want.job} to start first",
                f"{ahead.want.job} waits: {cap.reason().had}",
            )
    return None


def _starting(view: MachineView) -> Reason:
    return Reason(
        Rule.STARTING,
        "that the match becomes a claim",
        f"{len(view.matched)} matches are under way",
        view.name,
    )
