"""Small mistakes about pools that may run so many tasks; each is found from a seed with one."""

from __future__ import annotations

from iriai.broker.machines.pool_slots import PoolSlots
from tests.mutants.mutants import Patch, around, instead


def _one_more(whole, slots, most):
    return whole(slots, {pool: each + 1 for pool, each in most.items()})


POOLS: dict[str, Patch] = {
    "a pool runs one task more than it may": around(PoolSlots, "bound", _one_more),
    "a pool is never full": instead(PoolSlots, "refresh", lambda *_: []),
    "what runs on a machine that is gone keeps its pool full": instead(
        PoolSlots, "came_or_left", lambda *_: None
    ),
}
