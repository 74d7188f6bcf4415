"""Explains why a parallel job waits: how many of its ranks fit, and what each machine lacks.

docs/spec/011, section 4.
"""

from __future__ import annotations

from math import ceil
from typing import NamedTuple

from iriai.broker.machines.machine_view import MachineView
from iriai.broker.machines.pool_rooms import PoolOf
from iriai.broker.queue.entries import QueuedJob, TaskClass
from iriai.broker.scheduling.machine_reasons import (
    behind_head,
    distance,
    on_machine,
    out_of_question,
    start_words,
    summary,
)
from iriai.broker.state.state import BrokerState
from iriai.model.instant import Instant
from iriai.model.ranks import RANKS_MAX, SEATS_MAX, RankShape
from iriai.model.reason import Reason, Rule
from iriai.model.resources import Resources, describe_amount
from iriai.policy.placement.pool_capacity import shortage
from iriai.policy.placement.seats import Room, rank_fit, ranks_in, seats_of

POOLS_MAX = 4
"""Pools of which it is said how many ranks fit; the machines of the others are not listed."""


class _Part(NamedTuple):
    """How many ranks of a task one machine has to hold, and may."""

    least: int
    most: int

    @classmethod
    def of(cls, shape: RankShape) -> _Part:
        if shape.per_node is not None:
            return cls(shape.per_node, shape.per_node)
        if shape.nodes is not None:
            return cls(shape.least // shape.nodes, ceil(shape.least / shape.nodes))
        return cls(1, RANKS_MAX)


class _PoolFit(NamedTuple):
    """How many ranks of a task fit in a pool now."""

    pool: PoolOf
    fits: dict[str, int]
    """By machine, where its part fits."""
    ranks: int
    """Of the least number that the task needs."""
    machines: int
    """On which these would be."""
    has_room: bool


def explain_ranks(
    state: BrokerState, entry: QueuedJob, ahead: Reason | None, now: Instant
) -> list[Reason]:
    """Return why no pool has room for the first waiting task of a job; the main reason first.

    `ahead` is the job of its account that comes first if there is room; None: it is the first.
    """
    kind = entry.kind
    never = _too_small(state, entry)
    if never:
        return never
    is_across = kind.key.across_pools
    rooms, key = state.placement.parallel.rooms, kind.key
    pools = rooms.pools(is_across=is_across)
    pools = [pool for pool in pools if rooms.could_hold(pool, key.resources, key.shape)]
    found = [_fit_in(state, kind, pool, now.steady_s) for pool in pools]
    found.sort(key=lambda fit: (not fit.has_room, -fit.ranks, fit.pool.name))
    head = state.heads.by_job.get(entry.want.job)
    if head is not None and not head.is_across:
        found.sort(key=lambda fit: fit.pool.name != head.pool)
    told = [_pool_reason(state, entry, fit, ahead, now) for fit in found[:POOLS_MAX]]
    if head is not None:
        where = _name(head.pool, is_all=head.is_across)
        had = start_words(head, now)
        told.insert(1, Reason(Rule.RESERVED, f"room for its ranks in {where}", had))
    more = len(found) - POOLS_MAX
    if more > 0:
        plural = "s have" if more > 1 else " has"
        had = f"{more} more pool{plural} room for no more of them"
        told.append(Reason(Rule.POOL_BUSY, kind.key.shape.words(), had))
    machines = [
        reasons
        for fit in found[:POOLS_MAX]
        for view in fit.pool.machines.values()
        for reasons in [_lacking(state, entry, view, fit.fits.get(view.name, 0), now)]
        if reasons
    ]
    return told + summary(sorted(machines, key=distance))


def _too_small(state: BrokerState, entry: QueuedJob) -> list[Reason]:
    """Return why no pool could ever hold the task; empty: one could."""
    kind = entry.kind
    pools: dict[str, dict[str, Resources]] = {}
    for view in state.machines.values():
        pool = pools.setdefault(view.pool, {})
        if kind.may_run_on(view.name):
            pool[view.name] = view.calendar.capacity
    key, which = kind.key, "matching " if kind.is_choosy else ""
    short = shortage(key.resources, key.shape, pools, is_across=key.across_pools, which=which)
    if short is None:
        return []
    others = [
        out_of_question(state, entry, view)
        for view in state.machines.values()
        if kind.is_choosy and not kind.may_run_on(view.name)
    ]
    had = short.words
    if short.would_fit_across:
        had += f"; all pools together could hold it (iriai alter {entry.want.job} --across-pools)"
    return [Reason(Rule.NO_POOL, key.shape.words(), had), *summary(others)]


def _fit_in(state: BrokerState, kind: TaskClass, pool: PoolOf, now_s: float) -> _PoolFit:
    shape = kind.key.shape
    part = _Part.of(shape)
    rooms = list(state.placement.parallel.rooms_in(pool, kind, now_s))
    fits = {room.machine: room.fit for room in rooms if room.fit >= part.least}
    used = sorted((min(fit, part.most) for fit in fits.values()), reverse=True)
    ranks, machines = 0, 0
    for fit in used[: shape.nodes or SEATS_MAX]:
        if ranks >= shape.least:
            break
        ranks, machines = ranks + fit, machines + 1
    return _PoolFit(pool, fits, min(ranks, shape.least), machines, ranks_in(rooms, shape) > 0)


def _pool_reason(
    state: BrokerState, entry: QueuedJob, fit: _PoolFit, ahead: Reason | None, now: Instant
) -> Reason:
    """Return why the task does not start in a pool."""
    shape, pool = entry.kind.key.shape, fit.pool
    if fit.has_room:
        return _not_room(state, entry, fit, now) or ahead or _starting(fit)
    there, name = len(pool.machines), _name(pool.name, is_all=pool.is_all)
    plural = "" if there == 1 else "s"
    had = (
        f"{fit.ranks} of {shape.least} fit in {name}, on {fit.machines} of {there} machine{plural}"
    )
    if not fit.ranks:
        had = f"none of {shape.least} fits in {name}, which has {there} machine{plural}"
    return Reason(Rule.POOL_BUSY, shape.words(), had)


def _not_room(state: BrokerState, entry: QueuedJob, fit: _PoolFit, now: Instant) -> Reason | None:
    """Return the head that a task may not pass which fits in a pool; None: there is none."""
    kind, parallel, job = entry.kind, state.placement.parallel, entry.want.job
    rooms = [Room(name, ranks) for name, ranks in fit.fits.items()]
    head = parallel.head_before(seats_of(rooms, kind.key.shape), kind, now.steady_s, job)
    if head is None and not state.backfill.passes_heads:
        head = next((each for each in state.heads.by_job.values() if each.job != job), None)
        single = next(iter(state.reserved.values()), None)
        if head is None and single is not None and parallel.is_held(fit.pool):
            return behind_head(state, entry, single, "", now)
    return None if head is None else behind_head(state, entry, head, "", now)


def _starting(fit: _PoolFit) -> Reason:
    had = f"there is room in {_name(fit.pool.name, is_all=fit.pool.is_all)}"
    return Reason(Rule.STARTING, "its match to become claims", had)


def _lacking(
    state: BrokerState, entry: QueuedJob, view: MachineView, fit: int, now: Instant
) -> list[Reason]:
    """Return what a machine lacks to hold more of the task than `fit` ranks; empty: nothing."""
    kind = entry.kind
    part, need = _Part.of(kind.key.shape), kind.key.resources
    most = min(rank_fit(need, view.calendar.capacity), part.most)
    if fit >= most:
        return []
    if not fit:
        return on_machine(state, entry, view, None, now, part.least)
    lacking = need.times(fit + 1).lacking_in(view.calendar.free)
    if lacking:
        resource, needed, there = lacking[0]
        needs = f"{describe_amount(resource, needed)} for {fit + 1} ranks"
        had = f"{describe_amount(resource, there)} free, enough for {fit}"
        return [Reason(Rule.MACHINE_BUSY, needs, had, view.name)]
    head = state.reserved.get(view.name)
    return [] if head is None else [behind_head(state, entry, head, view.name, now)]


def _name(pool: str, *, is_all: bool) -> str:
    if is_all:
        return "all pools"
    return f"pool {pool}" if pool else "the pool without a name"
