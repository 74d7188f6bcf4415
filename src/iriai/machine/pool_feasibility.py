"""Whether any pool of machines could ever hold a parallel job (docs/spec/011, section 3)."""

from __future__ import annotations

from iriai.model.problem import Refused
from iriai.model.ranks import RankShape
from iriai.model.reason import Reason, Rule
from iriai.policy.placement.calendar import within_running_cap
from iriai.policy.placement.pool_capacity import Pools, least_cpus, shortage
from iriai.protocol.messages.scheduling import Want


def no_pool(want: Want, pools: Pools, which: str = "") -> Refused | None:
    """Return a refusal if no pool could ever hold a task of `want`; else None.

    `which` says which machines of the pools these are, as an adjective; empty: all.
    """
    short = shortage(want.resources, want.shape, pools, is_across=want.across_pools, which=which)
    if short is None:
        return None
    advice = [] if short.held is None else [f"ask for {short.held.options}"]
    if short.would_fit_across:
        advice.insert(0, "let the ranks be on machines of several pools with --across-pools")
    return Refused(
        "no-pool",
        f"no pool could ever hold {want.shape.words()}: {short.words}",
        ", ".join([*advice, "or use --wait-for-resources"]),
    )


def room_lacking(want: Want, free: Pools) -> tuple[Reason, ...]:
    """Return how many ranks of a task fit where most do, of what is `free`; empty: all do."""
    short = shortage(want.resources, want.shape, free, is_across=want.across_pools)
    if short is None:
        return ()
    return (Reason(Rule.POOL_BUSY, want.shape.words(), f"now {short.words}"),)


def over_running_cap(want: Want, pools: Pools, cap_cpus: int | None) -> Refused | None:
    """Return a refusal if no account may run as many CPUs as a task of `want` takes at least."""
    if cap_cpus is None:
        return None
    need, shape = want.resources, want.shape
    cpus = shape.least * need.cpus
    if want.exclusive:
        joined = {name: each for pool in pools.values() for name, each in pool.items()}
        groups = [joined] if want.across_pools else pools.values()
        able = [least_cpus(need, shape, machines) for machines in groups]
        cpus = min((each for each in able if each is not None), default=cpus)
    if within_running_cap(cpus, 0, cap_cpus).allowed:
        return None
    is_one = shape.most == 1
    told = f"{cpus} cpus are" if is_one else f"{_least_words(shape)} take {cpus} cpus, which are"
    return Refused(
        "over-running-cap",
        f"{told} more than any account may run at once ({cap_cpus})",
        f"ask for fewer {'cpus' if is_one else 'ranks'}, or raise running_cap_cpus in [order] of "
        "iriai.toml",
    )


def _least_words(shape: RankShape) -> str:
    return shape._replace(most=shape.least).words()
