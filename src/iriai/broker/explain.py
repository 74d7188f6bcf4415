"""Why a job waits: the same rules as the pass, asked one by one, the first that says no leads.

After a pass nothing that could start still waits, so each waiting job is held back by a rule below.
"""

from __future__ import annotations

from iriai.broker.machines import MachineView
from iriai.broker.queues import Entry
from iriai.broker.state import BrokerState
from iriai.model.ids import JobId
from iriai.model.instant import Instant
from iriai.model.reason import Reason, Rule
from iriai.model.resources import Resources, describe_amount
from iriai.policy.limits import within_running_cap


def explain(state: BrokerState, job: JobId, now: Instant) -> list[Reason]:
    """Why the first waiting task of `job` has not started; the main reason first."""
    entry = state.queues.entries.get(job)
    if entry is None:
        return [Reason(Rule.STARTING, "that the broker knows of it", "its home has not told yet")]
    if not state.machines:
        return [Reason(Rule.MACHINE_UNKNOWN, "a machine", "none has reported yet")]
    want = entry.want
    large_enough = [
        view for view in state.machines.values() if want.resources.fits_in(view.calendar.capacity)
    ]
    if not large_enough:
        return [too_large(want.resources, view) for view in state.machines.values()]
    cap_cpus = state.settings.configuration.order.running_cap_cpus
    running = state.standings.running_cpus(want.account)
    cap = within_running_cap(want.resources.cpus, running, cap_cpus)
    if not cap.allowed:
        return [cap.reason()]
    reasons = [_on_machine(state, entry, view, now) for view in large_enough]
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


def _on_machine(state: BrokerState, entry: Entry, view: MachineView, now: Instant) -> Reason:
    want = entry.want
    if view.unavailable is not None:
        return view.unavailable
    lacking = want.resources.lacking_in(view.calendar.free)
    if lacking:
        return _busy(state, lacking, view)
    head = state.reserved.get(view.name)
    if head is not None and head.job != want.job:
        return Reason(
            Rule.RESERVED_HEAD_AHEAD,
            "to end before the reserved head starts, or resources that it leaves",
            f"{head.job} is to start there in {max(0.0, head.start_s - now.steady_s):.0f} s",
            view.name,
        )
    return Reason(
        Rule.STARTING,
        "that the match becomes a claim",
        f"{len(view.matched)} matches are under way",
        view.name,
    )


def _busy(
    state: BrokerState, lacking: tuple[tuple[str, int, int], ...], view: MachineView
) -> Reason:
    resource, needed, there = lacking[0]
    waiting = sum(queue.ready for queue in state.queues.waiting())
    accounts = len(state.queues.accounts)
    return Reason(
        Rule.MACHINE_BUSY,
        describe_amount(resource, needed),
        f"{describe_amount(resource, there)} free; {waiting} tasks of {accounts} "
        f"{'account' if accounts == 1 else 'accounts'} wait",
        view.name,
    )
