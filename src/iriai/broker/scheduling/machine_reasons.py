"""Why a task does not start on one machine, by the rules of the pass."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from iriai.broker.machines.machine_view import MachineView
from iriai.broker.machines.matchmaking import user_of
from iriai.broker.queue.entries import QueuedJob
from iriai.broker.state.state import BrokerState
from iriai.classad.bindings import values_of
from iriai.classad.constraint import Constraint
from iriai.model.ad import Value
from iriai.model.instant import Instant
from iriai.model.reason import Reason, Rule
from iriai.model.resources import Resources, describe_amount
from iriai.policy.placement.backfill import ReservedHead
from iriai.policy.placement.calendar import OPEN_END_S
from iriai.policy.placement.pool_plan import PoolHead

if TYPE_CHECKING:
    from iriai.policy.matching.match import Demand

MACHINES_MAX = 8
"""Machines whose reasons are listed in full: as many as a person reads. The reasons of the others
are counted by rule."""
CLOSEST = (
    Rule.RESERVED,
    Rule.POOL_FULL,
    Rule.MACHINE_BUSY,
    Rule.NOT_EMPTY,
    Rule.ONE_PER_MACHINE,
    Rule.RESERVED_HEAD_AHEAD,
    Rule.RESERVED_AHEAD,
    Rule.NOT_RESERVED,
    Rule.HIGHER_QUEUE,
    Rule.AHEAD_IN_ACCOUNT,
    Rule.STARTING,
    Rule.BACKED_OFF,
    Rule.LOAD_ABOVE_THRESHOLD,
    Rule.OWNER_ACTIVE,
    Rule.DRAINED,
    Rule.MACHINE_AWAY,
    Rule.NO_LAUNCHER,
    Rule.OWNER_POLICY,
    Rule.REQUIREMENTS,
    Rule.USER_NOT_ALLOWED,
)
"""Among machines with equally many reasons, the one with the first of these rules comes first: the
job will start there, or a user can change something."""
Evidence = tuple[str, str]
"""A clause, and the values of the attributes that it mentions."""


def on_machine(
    state: BrokerState,
    entry: QueuedJob,
    view: MachineView,
    ahead: Reason | None,
    now: Instant,
    ranks: int = 1,
) -> list[Reason]:
    """Return why a task, or so many ranks of it, does not start on a machine.

    `ahead` is what holds it back everywhere else; None: nothing does.
    """
    unavailable = why_unavailable(view, now)
    if unavailable is not None:
        return [unavailable]
    kind = entry.kind
    if kind.is_choosy and not kind.may_run_on(view.name):
        return out_of_question(state, entry, view)
    reasons = []
    lacking = kind.key.resources.times(ranks).lacking_in(view.calendar.free)
    if lacking:
        reasons.append(_busy(state, lacking, view))
    elif kind.key.exclusive and len(view.calendar):
        reasons.append(_not_empty(view))
    if view.calendar.bookings:
        from iriai.broker.scheduling.booked_ahead import ahead_of_task

        booked = ahead_of_task(view, kind, now, ranks)
        reasons = [booked, *reasons[bool(lacking) :]] if booked else reasons
    if view.is_pool_full:
        reasons.append(pool_full(state, view))
    if kind.key.tenant in view.tenants:
        reasons.append(one_per_machine(kind.key.tenant, view))
    head = state.reserved.get(view.name)
    if head is not None and head.job == entry.want.job:
        reasons.append(_reserved(head, now))
    else:
        before = state.placement.head_before(view, kind)
        if before is not None and before.job != entry.want.job:
            reasons.append(behind_head(state, entry, before, view.name, now))
    return reasons or [ahead or starting(view)]


def pool_full(state: BrokerState, view: MachineView) -> Reason:
    """Return the reason of a machine whose pool runs as many tasks as it may."""
    running, most = state.slots.running(view.pool), state.slots.most(view.pool) or 0
    tasks = "no task" if most == 0 else f"at most {most} task{'' if most == 1 else 's'}"
    had = f"{running} run in pool {view.pool}, where {tasks} may"
    return Reason(Rule.POOL_FULL, "a pool that may run one more", had, view.name)


def out_of_question(state: BrokerState, entry: QueuedJob, view: MachineView) -> list[Reason]:
    """Return why it does not run on a machine that has, or may have, the free resources."""
    kind, want = entry.kind, entry.want
    bounds, demand = kind.key.bounds, kind.demand
    if bounds is not None and bounds.unreadable:
        return [unreadable(bounds.unreadable)]
    if bounds is not None and view.name in bounds.turned_away:
        exclusion = state.exclusions.get(view.name, want)
        words = exclusion.words if exclusion else ""
        if exclusion and exclusion.is_concluded:
            needed = f"a machine where tasks of {user_of(want)} do not fail within moments"
            return [Reason(Rule.BACKED_OFF, needed, words, view.name)]
        if exclusion and exclusion.is_in_use:
            needed = f"its owner to leave it, or to exempt {user_of(want)}"
            return [Reason(Rule.OWNER_ACTIVE, needed, words, view.name)]
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
    return reasons or [starting(view)]


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


def too_large(resources: Resources, view: MachineView) -> Reason:
    """Return the reason of a machine that could never hold `resources`."""
    resource, needed, there = resources.lacking_in(view.calendar.capacity)[0]
    return Reason(
        Rule.NO_MACHINE_LARGE_ENOUGH,
        describe_amount(resource, needed),
        f"the machine has {describe_amount(resource, there)}",
        view.name,
    )


def unreadable(problem: str) -> Reason:
    """Return the reason of a broker that cannot read the job's requirements."""
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
    accounts = str(len(state.queues.accounts))
    if state.usage.evens_rate:
        accounts += ", evened by what they use now"
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


def one_per_machine(tenant: str, view: MachineView) -> Reason:
    """Return the reason of a machine that runs one task of an account at a time."""
    return Reason(
        Rule.ONE_PER_MACHINE,
        f"no other task of {tenant} on it",
        "one runs there, and the configuration permits one at a time (order.one_per_machine)",
        view.name,
    )


def _reserved(head: ReservedHead, now: Instant) -> Reason:
    """Return the reason of the reserved head: its place is kept, and no task may delay it."""
    had = start_words(head, now)
    return Reason(Rule.RESERVED, "its resources to become free", had, head.machine)


def behind_head(
    state: BrokerState,
    entry: QueuedJob,
    head: ReservedHead | PoolHead,
    machine: str,
    now: Instant,
) -> Reason:
    """Return the reason of a task that a reserved head leaves no place; `machine` may be empty."""
    level, rule, whose = state.queues.level_of(head.job), Rule.RESERVED_HEAD_AHEAD, ""
    if level < entry.precedence.level:
        rule, whose = Rule.HIGHER_QUEUE, f" of queue {level}"
    needed = "to end before the reserved head starts, or resources that it leaves"
    had = f"{head.job}{whose}: {start_words(head, now)}"
    return Reason(rule, needed, had, machine)


def start_words(head: ReservedHead | PoolHead, now: Instant) -> str:
    """Return when a reserved head starts at the latest."""
    told_s = head.told_start_s
    latest_s = head.start_s if told_s is None else max(head.start_s, told_s)
    in_s = latest_s - now.steady_s
    if in_s > OPEN_END_S / 2:
        return "it starts when tasks without a time limit have ended"
    return f"it starts in {max(0.0, in_s):.0f} s at the latest"


def starting(view: MachineView) -> Reason:
    """Return the reason of a machine on which nothing is in the way."""
    return Reason(
        Rule.STARTING,
        "the match to become a claim",
        f"{len(view.matched)} matches are in progress",
        view.name,
    )


def distance(reasons: list[Reason]) -> tuple[int, int]:
    """Return the sort key of a machine: how far the job is from starting there."""
    rules = [reason.rule for reason in reasons]
    if Rule.RESERVED in rules:
        return (0, 0)
    return (len(rules), CLOSEST.index(rules[0]) if rules[0] in CLOSEST else len(CLOSEST))


def summary(machines: list[list[Reason]]) -> list[Reason]:
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
