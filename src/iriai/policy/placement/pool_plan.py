"""When a pool of machines has room for a parallel task, and what may start beside it until then.

EASY backfill over many machines (docs/spec/011, section 4): a reserved head keeps places at one
moment, bound to no machine. Times are on the steady clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from math import inf
from operator import itemgetter
from typing import Any

from iriai.model.ids import JobId
from iriai.model.ranks import SEATS_MAX, RankShape
from iriai.model.resources import NOTHING, Resources
from iriai.policy.placement.calendar import Calendar
from iriai.policy.placement.seats import Room, rank_fit, ranks_in


def has_room(fits: Mapping[str, int], shape: RankShape) -> bool:
    """Return whether the ranks that fit on each machine are enough for a task of `shape`."""
    return ranks_in([Room(name, fit) for name, fit in fits.items() if fit], shape) > 0


class FitCounts:
    """How many ranks of a task fit on each machine, and whether they are enough.

    Where machines have to hold several ranks each, there must be enough machines that hold so
    many: these are counted, since all that fits is no measure then.
    """

    __slots__ = ("_counts", "_is_sum", "_levels", "_shape", "by_machine", "total")

    def __init__(self, by_machine: dict[str, int], shape: RankShape) -> None:
        self.by_machine = by_machine
        self.total = sum(by_machine.values())
        self._shape = shape
        self._levels = _levels_of(shape)
        self._counts = [
            sum(fit >= level for fit in by_machine.values()) for level, _ in self._levels
        ]
        self._is_sum = not self._levels and len(by_machine) <= SEATS_MAX

    def put(self, machine: str, fit: int) -> None:
        """Replace the count of a machine."""
        before = self.by_machine[machine]
        self.total += fit - before
        self.by_machine[machine] = fit
        for place, (level, _) in enumerate(self._levels):
            self._counts[place] += (fit >= level) - (before >= level)

    def is_enough(self) -> bool:
        """Return whether a task fits."""
        return self.is_enough_with({})

    def is_enough_with(self, changed: dict[str, int]) -> bool:
        """Return whether a task fits where so much fits on some machines instead."""
        known = self.by_machine
        if self._is_sum:
            loss = sum(known[machine] - fit for machine, fit in changed.items()) if changed else 0
            return self.total - loss >= self._shape.least
        if not self._levels:
            return has_room({**known, **changed}, self._shape)
        for (level, needed), count in zip(self._levels, self._counts, strict=True):
            lost = sum(
                (known[machine] >= level) - (fit >= level) for machine, fit in changed.items()
            )
            if count - lost < needed:
                return False
        return True

    def loss(self, machine: str, fit: int) -> int:
        """Return how much of what counts is lost where only so much fits on a machine."""
        known = self.by_machine[machine]
        if not self._levels:
            return known - fit
        return sum((known >= level) - (fit >= level) for level, _ in self._levels)

    def spare_ranks(self) -> int | None:
        """Return how many ranks more than the least fit; None where that does not decide."""
        return self.total - self._shape.least if self._is_sum else None


def _levels_of(shape: RankShape) -> list[tuple[int, int]]:
    """Return which numbers of ranks how many machines must hold; empty: it has no such rule."""
    if shape.per_node is not None:
        machines = shape.nodes
        if machines is None:
            machines = -(-shape.least // shape.per_node)
        return [(shape.per_node, machines)]
    if shape.nodes is None:
        return []
    each, more = divmod(max(shape.least, shape.nodes), shape.nodes)
    return [(each, shape.nodes), (each + 1, more)]


def sum_of(amounts: Iterable[Resources]) -> Resources:
    """Return all amounts together."""
    total = NOTHING
    alike: dict[Resources, int] = {}
    for each in amounts:
        alike[each] = alike.get(each, 0) + 1
    for each, count in alike.items():
        total = total.plus(each.times(count))
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
    whole: Mapping[str, Resources] = field(default_factory=dict)
    """The capacity of each machine, if it takes whole ones; else empty."""
    pool: str = ""
    """The name of its pool."""
    is_across: bool = False
    """Whether its machines are of all pools."""
    told_start_s: float | None = None
    """What its home was told."""
    is_stale: bool = False
    """Whether a machine has left the pool since it was planned."""
    counts: FitCounts | None = None
    """How many of its ranks fit on each machine at that moment; computed if not given."""
    stay_s: float | None = None
    """For how long it needs its places from then on; None: for ever."""
    spare: Resources = field(init=False)
    """What is free then beyond its ranks, on all machines together."""
    _fits: FitCounts = field(init=False)

    def __post_init__(self) -> None:
        if self.counts is None:
            fits = {name: self._fit(name, free) for name, free in self.free.items()}
            self.counts = FitCounts(fits, self.shape)
        self._fits = self.counts
        self.spare = sum_of(self.free.values()).minus(self.need.times(self.shape.least))

    def is_in(self, pool: str) -> bool:
        """Return whether it has machines of that pool."""
        return self.is_across or self.pool == pool

    def starts_after(self, stay_s: float | None, now_s: float) -> bool:
        """Return whether what starts now, and stays so long, is over by then."""
        return stay_s is not None and now_s + stay_s <= self.start_s

    def allows(self, need: Resources, ranks: int, stay_s: float | None, now_s: float) -> bool:
        """Return False where so many ranks delay this head, on whichever of its machines.

        Each that is as large as one of its own takes a place at least.
        """
        if self.need.fits_in(need) and not (self.whole or self.starts_after(stay_s, now_s)):
            spare = self._fits.spare_ranks()
            return spare is None or ranks <= spare
        return True

    def spared(self, machine: str, need: Resources, most: int) -> int:
        """Return how often `need` can be taken on a machine and no place of this head is lost."""
        free = self.free.get(machine)
        if free is None:
            return most
        fit = self._fits.by_machine[machine]
        while most and self._fit(machine, free.minus(need.times(most))) < fit:
            most -= 1
        return most

    def _fit(self, machine: str, free: Resources) -> int:
        return fit_of(self.need, free, self.whole.get(machine))

    def tolerates(
        self, machine: str, resources: Resources, stay_s: float | None, now_s: float
    ) -> bool:
        """Whether `resources` may be claimed there now for `stay_s` without delaying this head."""
        return self.tolerates_all([(machine, resources)], stay_s, now_s)

    def tolerates_all(
        self, claims: list[tuple[str, Resources]], stay_s: float | None, now_s: float
    ) -> bool:
        """Whether claims on several machines, each once, may be made together."""
        if self.starts_after(stay_s, now_s):
            return True
        changed = {}
        for machine, resources in claims:
            free = self.free.get(machine)
            if free is not None:
                fit = self._fit(machine, free.minus(resources))
                if fit != self._fits.by_machine[machine]:
                    changed[machine] = fit
        return not changed or self._fits.is_enough_with(changed)

    def loss(self, machine: str, resources: Resources) -> int:
        """Return how much of what its ranks need is lost where `resources` are taken then."""
        free = self.free.get(machine)
        if free is None:
            return 0
        return self._fits.loss(machine, self._fit(machine, free.minus(resources)))

    def filled(
        self, machine: str, resources: Resources, stay_s: float | None, now_s: float
    ) -> None:
        """Such a claim was made: what outlasts the head's start is not free then."""
        if machine in self.free and not self.starts_after(stay_s, now_s):
            free = self.free[machine] = self.free[machine].minus(resources)
            self.spare = self.spare.minus(resources)
            self._fits.put(machine, self._fit(machine, free))


def fit_of(need: Resources, free: Resources, whole: Resources | None) -> int:
    """Return how often `need` fits; on a machine that it takes as a `whole`, only if it is."""
    return rank_fit(need, free) if whole is None or whole == free else 0


def plan_head(
    job: JobId,
    need: Resources,
    shape: RankShape,
    calendars: Mapping[str, Calendar[Any]],
    now_s: float,
    *,
    is_exclusive: bool = False,
    stay_s: float | None = None,
) -> PoolHead | None:
    """Return the head of a task on these machines at the earliest moment at which it fits.

    Every claim is taken to end at its end; one past its end counts as ending now. All claims that
    end at the same moment as the last that is needed count as over. None: it fits never.
    `is_exclusive`: it takes whole machines. Where machines have bookings it fits for `stay_s`;
    None: for ever.
    """
    whole = {name: each.capacity for name, each in calendars.items()} if is_exclusive else {}
    if any(each.bookings for each in calendars.values()):
        found = _beside_bookings(need, shape, calendars, now_s, whole, stay_s)
        if found is None:
            return None
        booked_s, free, counts = found
        return PoolHead(job, need, shape, booked_s, free, whole, counts=counts, stay_s=stay_s)
    free = {name: calendar.free_later for name, calendar in calendars.items()}
    fits = {name: fit_of(need, room, whole.get(name)) for name, room in free.items()}
    counts = FitCounts(fits, shape)
    start_s, is_room = now_s, counts.is_enough()
    ends = [
        (end_s, name, resources)
        for name, calendar in calendars.items()
        for resources, end_s in calendar.ends()
    ]
    ends.sort(key=itemgetter(0))
    for end_s, name, resources in ends:
        if is_room and end_s > start_s:
            break
        room = free[name] = free[name].plus(resources)
        fit = fit_of(need, room, whole.get(name))
        if fit != fits[name]:
            counts.put(name, fit)
            if not is_room and counts.is_enough():
                is_room, start_s = True, max(now_s, end_s)
    if not is_room:
        return None
    return PoolHead(job, need, shape, start_s, free, whole, counts=counts, stay_s=stay_s)


def _beside_bookings(
    need: Resources,
    shape: RankShape,
    calendars: Mapping[str, Calendar[Any]],
    now_s: float,
    whole: Mapping[str, Resources],
    stay_s: float | None,
) -> tuple[float, dict[str, Resources], FitCounts] | None:
    """Return when a task fits for `stay_s`, and what machines have free for all of that time.

    On a machine with bookings that changes not only where a claim or booking ends, but also where
    one begins that the task would reach: after that moment it fits no more.
    """
    length_s = inf if stay_s is None else stay_s
    profiles = {name: each.profile() for name, each in calendars.items() if each.bookings}
    free = {name: calendar.free_later for name, calendar in calendars.items()}
    fits = {name: fit_of(need, room, whole.get(name)) for name, room in free.items()}
    counts = FitCounts(fits, shape)
    events: list[tuple[float, str, Resources | None]] = []
    for name, calendar in calendars.items():
        if name not in profiles:
            ends = calendar.ends()
            events += [(max(now_s, end_s), name, resources) for resources, end_s in ends]
            continue
        times = dict.fromkeys(
            (now_s, *profiles[name].times, *(each - length_s for each in profiles[name].times))
        )
        events += [(time_s, name, None) for time_s in times if time_s >= now_s]
    events.sort(key=itemgetter(0))
    before: list[str] = []
    """Machines with bookings that changed at the moment before."""
    for time_s, changes in groupby(events, key=itemgetter(0)):
        rooms = {name: profiles[name].least(time_s, time_s + length_s) for name in before}
        before = []
        for _, name, resources in changes:
            if resources is not None:
                rooms[name] = rooms.get(name, free[name]).plus(resources)
            else:
                rooms[name] = profiles[name].least(time_s, time_s + length_s)
                before.append(name)
        for name, room in rooms.items():
            free[name] = room
            counts.put(name, fit_of(need, room, whole.get(name)))
        if counts.is_enough():
            return time_s, free, counts
    return None
