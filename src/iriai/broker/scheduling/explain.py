"""Explains why a job waits, by the rules of the pass; the first refusal comes first.

After a pass no waiting task could start, so one of the rules below refuses each waiting job. The
first reason is the one to change: without it the job would start, or be the next to.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from iriai.broker.pool.machine_view import MachineView
from iriai.broker.pool.matchmaking import user_of
from iriai.broker.queue.entries import QueuedJob
from iriai.broker.state.reserved_heads import could_hold
from iriai.broker.state.state import BrokerState
from iriai.classad.bindings import values_of
from iriai.classad.constraint import Constraint
from iriai.model.ad import Value
from iriai.model.ids import JobId
from iriai.model.instant import Instant
from iriai.model.reason import Reason, Rule
from iriai.model.resources import Resources, describe_amount
from iriai.policy.placement.backfill import ReservedHead
from iriai.policy.placement.calendar import OPEN_END_S
from iriai.policy.placement.pool_plan import PoolHead
from iriai.protocol.messages.scheduling import Want

if TYPE_CHECKING:
    from iriai.policy.matching.match import Demand

Evidence = tuple[str, str]
"""A clause, and the values of the attributes that it mentions."""
MACHINES_MAX = 8
"""Machines whose reasons are listed in full: as many as a person reads. The reasons of the others
are counted by rule."""
CLOSEST = (
    Rule.RESERVED,
    Rule.MACHINE_BUSY,
    Rule.NOT_EMPTY,
    Rule.ONE_PER_MACHINE,
    Rule.RESERVED_HEAD_AHEAD,
    Rule.AHEAD_IN_ACCOUNT,
    Rule.STARTING,
    Rule.BACKED_OFF,
    Rule.LOAD_ABOVE_THRESHOLD,
    Rule.DRAINED,
    Rule.MACHINE_AWAY,
    Rule.NO_LAUNCHER,
    Rule.OWNER_POLICY,
    Rule.REQUIREMENTS,
    Rule.USER_NOT_ALLOWED,
)
"""Among machines with equally many reasons, the one with the first of these rules comes first: the
job will start there, or a user can change something."""


def explain(state: BrokerState, job: JobId, now: Instant) -> list[Reason]:
    """Return why the first waiting task of `job` has not started; the main reason first."""
    entry = state.queues.entries.get(job)
    if entry is None:
        return [
            Reason(Rule.STARTING, "the broker to know of it", "its home has not reported it yet")
        ]
    if not state.machines:
        return [Reason(Rule.MACHINE_UNKNOWN, "a machine", "none has reported yet")]
    resources = entry.want.resources
    views = list(state.machines.values())
    able = [view for view in views if resources.fits_in(view.calendar.capacity)]
    if not able:
        return _summary([[too_large(resources, view)] for view in views])
    if entry.kind.is_choosy and not any(could_hold(entry.kind, view) for view in able):
        return _summary([_out_of_question(state, entry, view) for view in able])
    cap = state.running_cap(entry)
    if not cap.allowed:
        return [cap.reason()]
    ahead = _ahead_in_account(state, entry)
    found = [_on_machine(state, entry, view, ahead, now) for view in able]
    return _summary(sorted(found, key=_distance))


def too_large(resources: Resources, view: MachineView) -> Reason:
    """Return the reason of a machine that could never hold `resources`."""
    resource, needed, there = resources.lacking_in(view.calendar.capacity)[0]
    return Reason(
        Rule.NO_MACHINE_LARGE_ENOUGH,
        describe_amount(resource, needed),
        f"the machine has {describe_amount(resource, there)}",
        view.name,
    )


def _distance(reasons: list[Reason]) -> tuple[int, int]:
    """Return the sort key of a machine: how far the job is from starting there."""
    rules = [reason.rule for reason in reasons]
    if Rule.RESERVED in rules:
        return (0, 0)
    return (len(rules), CLOSEST.index(rules[0]) if rules[0] in CLOSEST else len(CLOSEST))


def _summary(machines: list[list[Reason]]) -> list[Reason]:
    """Return all reasons of the first machines; of the others, the number with each reason."""
    told = [reason for reasons in machines[:MACHINES_MAX] for reason in reasons]
    others: dict[Rule, list[Reason]] = {}
    for reasons in machines[MACHINES_MAX:]:
        others.setdefault(reasons[0].rule, []).append(reasons[0])
    for rule, reasons in others.items():
        first, count = reasons[0], len(reasons)
        more = f"{count} more {'machines' if count > 1 else 'machine'} as {first.machine}"
        told.append(Reason(rule, first.needed, f"{more}: {first.had}"))
    return told


def _on_machine(
    state: BrokerState, entry: QueuedJob, view: MachineView, ahead: Reason | None, now: Instant
) -> list[Reason]:
    unavailable = why_unavailable(view, now)
    if unavailable is not None:
        return [unavailable]
    kind = entry.kind
    if kind.is_choosy and not kind.may_run_on(view.name):
        return _out_of_question(state, entry, view)
    reasons = []
    lacking = kind.key.resources.lacking_in(view.calendar.free)
    if lacking:
        reasons.append(_busy(state, lacking, view))
    elif kind.key.exclusive and len(view.calendar):
        reasons.append(_not_empty(view))
    if kind.key.tenant in view.tenants:
        reasons.append(_one_per_machine(kind.key.tenant, view))
    head = state.reserved.get(view.name)
    if head is not None and head.job == entry.want.job:
        reasons.append(_reserved(head, now))
    else:
        before = state.placement.head_before(view, kind)
        if before is not None:
            reasons.append(_behind_head(before, view, now))
    return reasons or [ahead or _starting(view)]


def _out_of_question(state: BrokerState, entry: QueuedJob, view: MachineView) -> list[Reason]:
    """Return why it does not run on a machine that has, or may have, the free resources."""
    kind, want = entry.kind, entry.want
    bounds, demand = kind.key.bounds, kind.demand
    if bounds is not None and bounds.unreadable:
        return [_unreadable(bounds.unreadable)]
    if bounds is not None and view.name in bounds.turned_away:
        exclusion = state.exclusions.get(view.name, want)
        words = exclusion.words if exclusion else ""
        if exclusion and exclusion.is_concluded:
            needed = f"a machine where tasks of {user_of(want)} do not fail within moments"
            return [Reason(Rule.BACKED_OFF, needed, words, view.name)]
        whom = f"permission for tasks of {user_of(want)} from {want.job.home}"
        words = words or "the machine does not give it"
        return [Reason(Rule.USER_NOT_ALLOWED, whom, words, view.name)]
    assert demand is not None
    return mismatches(state, demand, view)


def mismatches(state: BrokerState, demand: Demand, view: MachineView) -> list[Reason]:
    """Return the clauses that fail between job and machine: the job's, then the owner's."""
    ours, owners = evidence_against(state, view.name, demand.condition, demand.job)
    reasons = [Reason(Rule.REQUIREMENTS, clause, had, view.name) for clause, had in ours]
    reasons += [Reason(Rule.OWNER_POLICY, clause, had, view.name) for clause, had in owners]
    return reasons or [_starting(view)]


def evidence_against(
    state: BrokerState, machine: str, wanted: Constraint, job: Mapping[str, Value]
) -> tuple[list[Evidence], list[Evidence]]:
    """Return the clauses that fail on a machine, the job's and its owner's, with their values."""
    matches = state.matching.begin()
    ours, owners = matches.clauses_failing(machine, wanted, job)
    ad = matches.ad(machine)
    told = [(clause.text, values_of(clause, ad, job)) for clause in owners]
    problem = matches.owner_of(machine).problem
    if problem:
        told.append(("readable requirements of its owner", problem))
    return [(clause.text, values_of(clause, job, ad)) for clause in ours], told


def never_runs(state: BrokerState, want: Want) -> list[Reason]:
    """Return the clauses that no large enough machine will ever meet; empty: one may."""
    problem = state.matching.problem_of(want)
    if problem:
        return [_unreadable(problem)]
    key = state.matching.key(want)
    if key is None:
        return []
    demand = state.matching.begin().demand(key).enter()
    try:
        views = state.machines
        able = [v for v in views.values() if want.resources.fits_in(v.calendar.capacity)]
        if not able or any(demand.may_admit(view.name) for view in able):
            return []
        return [mismatches(state, demand, view)[0] for view in able]
    finally:
        demand.leave()


def _unreadable(problem: str) -> Reason:
    return Reason(Rule.REQUIREMENTS, "a broker that can read requirements", problem)


def why_unavailable(view: MachineView, now: Instant) -> Reason | None:
    """Return why a machine accepts no task at all; None: it does."""
    if view.is_away:
        return Reason(
            Rule.MACHINE_AWAY,
            "a link to the machine",
            "it is not reachable; check that it is up, and its daemon (`iriai up`)",
            view.name,
        )
    return view.unavailable or view.back_off.reason(now.steady_s)


def _busy(
    state: BrokerState, lacking: tuple[tuple[str, int, int], ...], view: MachineView
) -> Reason:
    resource, needed, there = lacking[0]
    waiting = state.queues.ready
    accounts = len(state.queues.accounts)
    return Reason(
        Rule.MACHINE_BUSY,
        describe_amount(resource, needed),
        f"{describe_amount(resource, there)} free; waiting tasks: {waiting}, accounts: {accounts}",
        view.name,
    )


def _not_empty(view: MachineView) -> Reason:
    count = len(view.calendar)
    return Reason(
        Rule.NOT_EMPTY,
        "the whole machine, on which nothing runs",
        f"{count} {'task runs' if count == 1 else 'tasks run'} there",
        view.name,
    )


def _one_per_machine(tenant: str, view: MachineView) -> Reason:
    return Reason(
        Rule.ONE_PER_MACHINE,
        f"no other task of {tenant} on it",
        "one runs there, and the configuration permits one at a time (order.one_per_machine)",
        view.name,
    )


def _reserved(head: ReservedHead, now: Instant) -> Reason:
    """Return the reason of the reserved head: its place is kept, and no task may delay it."""
    return Reason(Rule.RESERVED, "its resources to become free", _start(head, now), head.machine)


def _behind_head(head: ReservedHead | PoolHead, view: MachineView, now: Instant) -> Reason:
    return Reason(
        Rule.RESERVED_HEAD_AHEAD,
        "to end before the reserved head starts, or resources that it leaves",
        f"{head.job}: {_start(head, now)}",
        view.name,
    )


def _start(head: ReservedHead | PoolHead, now: Instant) -> str:
    in_s = head.start_s - now.steady_s
    if in_s > OPEN_END_S / 2:
        return "it starts when tasks without a time limit have ended"
    return f"it starts in {max(0.0, in_s):.0f} s at the latest"


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


def _starting(view: MachineView) -> Reason:
    return Reason(
        Rule.STARTING,
        "the match to become a claim",
        f"{len(view.matched)} matches are in progress",
        view.name,
    )
