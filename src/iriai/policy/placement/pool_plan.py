"""When a pool of machines has room for a parallel task, and what may start beside it until then.

EASY backfill over many machines (docs/spec/011, section 4): a reserved head keeps places at one
moment, bound to no machine. Times are on the steady clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from operator import itemgetter
from typing import Any

from iriai.model.ids import JobId
from iriai.model.ranks import SEATS_MAX, RankShape
from iriai.model.resources import NOTHING, Resources
from iriai.policy.placement.calendar import Calendar
from iriai.policy.placement.seats import Room, ranks_in


def rank_fit(need: Resources, free: Resources) -> int:
    """Return how often `need` fits into `free`."""
    fit = free.cpus // need.cpus if need.cpus else free.cpus
    if need.memory_bytes:
        fit = min(fit, free.memory_bytes // need.memory_bytes)
    if need.gpus:
        fit = min(fit, free.gpus // need.gpus)
    if need.named:
        have = dict(free.named)
        fit = min(fit, *(have.get(name, 0) // amount for name, amount in need.named))
    return max(0, fit)


def has_room(fits: Mapping[str, int], shape: RankShape) -> bool:
    """Return whether the ranks that fit on each machine are enough for a task of `shape`."""
    return ranks_in([Room(name, fit) for name, fit in fits.items() if fit], shape) > 0


class FitCounts:
    """How many ranks of a task fit on each machine, and whether they are enough."""

    __slots__ = ("_is_sum", "_shape", "_total", "by_machine")

    def __init__(self, by_machine: dict[str, int], shape: RankShape) -> None:
        self.by_machine = by_machine
        self._shape = shape
        self._total = sum(by_machine.values())
        # Where ranks may lie in any way, all that fits counts.
        self._is_sum = (
            shape.nodes is None and shape.per_node is None and len(by_machine) <= SEATS_MAX
        )

    def put(self, machine: str, fit: int) -> None:
        """Replace the count of a machine."""
        self._total += fit - self.by_machine[machine]
        self.by_machine[machine] = fit

    def is_enough(self) -> bool:
        """Return whether a task fits."""
        if self._is_sum:
            return self._total >= self._shape.least
        return has_room(self.by_machine, self._shape)

    def is_enough_with(self, changed: dict[str, int]) -> bool:
        """Return whether a task fits where so much fits on some machines instead."""
        if self._is_sum:
            loss = sum(self.by_machine[machine] - fit for machine, fit in changed.items())
            return self._total - loss >= self._shape.least
        return has_room({**self.by_machine, **changed}, self._shape)


def sum_of(amounts: Iterable[Resources]) -> Resources:
    """Return all amounts together."""
    total = NOTHING
    for each in amounts:
        total = total.plus(each)
    return total


@dataclass(slots=True)
class PoolHead:
    """A parallel task that could not start when its account was drawn, and its places."""

    job: JobId
    need: Resources
    """Of one rank."""
    shape: RankShape
    start_s: float
    """When it starts at the latest, if every claim ends at its end."""
    free: dict[str, Resources]
    """What each machine of the pool has free at that moment, less what was started beside it."""
    pool: str = ""
    """The name of its pool."""
    is_across: bool = False
    """Whether its machines are of all pools."""
    told_start_s: float | None = None
    """What its home was told."""
    spare: Resources = field(init=False)
    """What is free then beyond its ranks, on all machines together."""
    _fits: FitCounts = field(init=False)

    def __post_init__(self) -> None:
        fits = {name: rank_fit(self.need, free) for name, free in self.free.items()}
        self._fits = FitCounts(fits, self.shape)
        self.spare = sum_of(self.free.values()).minus(self.need.times(self.shape.least))

    def is_in(self, pool: str) -> bool:
        """Return whether it has machines of that pool."""
        return self.is_across or self.pool == pool

    def tolerates(
        self, machine: str, resources: Resources, stay_s: float | None, now_s: float
    ) -> bool:
        """Whether `resources` may be claimed there now for `stay_s` without delaying this head."""
        return self.tolerates_all([(machine, resources)], stay_s, now_s)

    def tolerates_all(
        self, claims: list[tuple[str, Resources]], stay_s: float | None, now_s: float
    ) -> bool:
        """Whether claims on several machines, each once, may be made together."""
        if self._ends_before(stay_s, now_s):
            return True
        changed = {}
        for machine, resources in claims:
            free = self.free.get(machine)
            if free is not None:
                fit = rank_fit(self.need, free.minus(resources))
                if fit != self._fits.by_machine[machine]:
                    changed[machine] = fit
        return not changed or self._fits.is_enough_with(changed)

    def filled(
        self, machine: str, resources: Resources, stay_s: float | None, now_s: float
    ) -> None:
        """Such a claim was made: what outlasts the head's start is not free then."""
        if machine in self.free and not self._ends_before(stay_s, now_s):
            free = self.free[machine] = self.free[machine].minus(resources)
            self.spare = self.spare.minus(resources)
            self._fits.put(machine, rank_fit(self.need, free))

    def _ends_before(self, stay_s: float | None, now_s: float) -> bool:
        return stay_s is not None and now_s + stay_s <= self.start_s


def plan_head(
    job: JobId,
    need: Resources,
    shape: RankShape,
    calendars: Mapping[str, Calendar[Any]],
    now_s: float,
) -> PoolHead | None:
    """Return the head of a task on these machines at the earliest moment at which it fits.

    Every claim is taken to end at its end; one past its end counts as ending now. All claims that
    end at the same moment as the last that is needed count as over. None: it fits never.
    """
    free = {name: calendar.free_later for name, calendar in calendars.items()}
    fits = FitCounts({name: rank_fit(need, room) for name, room in free.items()}, shape)
    start_s, is_room = now_s, fits.is_enough()
    ends = sorted(chain.from_iterable(map(_ends_of, calendars.items())), key=itemgetter(0))
    for end_s, name, resources in ends:
        if is_room and end_s > start_s:
            break
        room = free[name] = free[name].plus(resources)
        fit = rank_fit(need, room)
        if fit != fits.by_machine[name]:
            fits.put(name, fit)
            if not is_room and fits.is_enough():
                is_room, start_s = True, max(now_s, end_s)
    return PoolHead(job, need, shape, start_s, free) if is_room else None


def _ends_of(machine: tuple[str, Calendar[Any]]) -> Iterator[tuple[float, str, Resources]]:
    name, calendar = machine
    return ((end_s, name, resources) for resources, end_s in calendar.ends())
