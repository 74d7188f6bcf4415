"""Whether nodes can be had for a reservation, by looking at every moment, and at every choice.

For machines with cpus alone, where nothing runs inside a reservation, and accounts may reserve what
they like. It knows the rules of docs/spec/017, section 7, and nothing of how the broker searches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from math import comb, inf
from typing import NamedTuple

from iriai.broker.scheduling.booking_offers import Planned
from iriai.broker.state.state import BrokerState
from iriai.model.instant import Instant
from iriai.policy.placement.pool_plan import PoolHead
from iriai.protocol.messages.reservations import NodesOffered, SeekNodes

MARGIN_S = 1.0
"""The broker keeps so far away from places that are promised, and counts a booking as begun so much
earlier. As near as that to such a place no more is free than beside it."""
CHOICES_MAX = 20_000
"""Choices of machines that are tried where places of several parallel tasks are in the way."""


class Taken(NamedTuple):
    """What is taken of one machine in [from_s, to_s)."""

    from_s: float
    to_s: float
    cpus: int


class Kept(NamedTuple):
    """The places of a parallel task that was promised to start."""

    from_s: float
    to_s: float
    ranks: int
    free_cpus: Mapping[str, int]
    """By machine, what is free for it then."""


class TooManyChoices(Exception):
    """There are more choices of machines than can be tried."""


class ExhaustiveSearch:
    """What a broker knows at one moment, and what could be booked then."""

    def __init__(
        self,
        state: BrokerState,
        planned: Planned | None,
        seek: SeekNodes,
        now: Instant,
        *,
        margin_s: float = MARGIN_S,
    ) -> None:
        """`margin_s`: 0 for whoever knows all times exactly."""
        self._terms, self._margin_s = seek.terms, margin_s
        self.start_s = max(now.steady_s, now.steady_s + seek.terms.start_wall_s - now.wall_s)
        """The start that was asked for."""
        horizon_s = state.settings.configuration.reservations.horizon_s
        self._last_s = now.steady_s + horizon_s - margin_s
        self._capacity = {
            name: view.calendar.capacity.cpus for name, view in state.machines.items()
        }
        plan = {} if planned is None else planned(now.steady_s, seek.terms.resources)
        self._taken: dict[str, list[Taken]] = {}
        self._held: dict[str, list[Taken]] = {}
        """Places of tasks that were promised; `_taken` has them, too."""
        for name, view in state.machines.items():
            calendar = view.calendar
            claims = [(key, calendar.held_by(key).cpus) for key in calendar]
            taken = [Taken(-inf, calendar.end_s(key), cpus) for key, cpus in claims]
            for span in calendar.bookings:
                from_s = span.from_s + MARGIN_S - margin_s
                taken.append(Taken(from_s, span.end_s, span.resources.cpus))
            self._held[name] = [
                Taken(each.from_s, each.to_s, each.resources.cpus) for each in plan.get(name, ())
            ]
            self._taken[name] = taken
        self._kept: list[Kept] = []
        heads = (*state.heads.by_machine.values(), *state.heads.by_job.values(), *state.heads.aside)
        for head in heads:
            stay_s = inf if head.stay_s is None else head.stay_s
            end_s = head.start_s + stay_s
            if isinstance(head, PoolHead):
                free = {name: room.cpus for name, room in head.free.items()}
                from_s, to_s = head.start_s - margin_s, end_s + margin_s
                self._kept.append(Kept(from_s, to_s, head.shape.least, free))
            else:
                held = Taken(head.start_s, end_s, head.resources.cpus)
                self._held[head.machine].append(held)
        for name, places in self._held.items():
            self._taken[name] += places

    @property
    def fits(self) -> bool:
        """Return whether nodes can be had for the start that was asked for."""
        return self.is_room(self.start_s, self._terms.length_s - self._margin_s)

    def earliest_s(self) -> float | None:
        """Return the first start that would do, within the horizon; None: there is none.

        Nothing becomes possible but when something ends.
        """
        length_s = self._terms.length_s + self._margin_s
        ends = {each.to_s for taken in self._taken.values() for each in taken}
        ends |= {each.to_s for each in self._kept}
        ends |= {each.to_s + self._margin_s for held in self._held.values() for each in held}
        last_s = self._last_s
        later = sorted(end_s for end_s in ends if self.start_s < end_s <= last_s)
        if self.is_room(self.start_s, length_s):
            return self.start_s
        found = (start_s for start_s in later if self.is_room(start_s, length_s))
        first_s = next(found, None)
        return None if first_s is None else first_s + self._margin_s

    def is_room(self, start_s: float, length_s: float) -> bool:
        """Return whether enough machines are free together from then on for so long.

        Raises:
            TooManyChoices: it is not decided.
        """
        end_s = start_s + length_s
        free = [name for name in self._taken if self._is_free(name, start_s, end_s)]
        nodes = self._terms.nodes
        if len(free) < nodes:
            return False
        kept = [each for each in self._kept if each.from_s < end_s and start_s < each.to_s]
        return any(
            all(self._leaves(each, chosen) for each in kept)
            for chosen in _choices(free, kept, nodes)
        )

    def _is_free(self, name: str, start_s: float, end_s: float) -> bool:
        held = self._held[name]
        edges = [each.from_s for each in self._taken[name]]
        edges += [edge_s for each in held for edge_s in (each.from_s - self._margin_s, each.to_s)]
        moments = [start_s, *(each for each in edges if start_s < each < end_s)]
        most = max(self._used(name, at_s) for at_s in moments)
        return most + self._need(name) <= self._capacity[name]

    def _used(self, name: str, at_s: float) -> int:
        """Return what counts as taken then: near a place that is held as much as beside it."""
        taken, margin_s = self._taken[name], self._margin_s
        used = sum(each.cpus for each in taken if each.from_s <= at_s < each.to_s)
        for held in self._held[name]:
            if held.from_s - margin_s <= at_s < held.from_s:
                begins = (each.cpus for each in taken if each.from_s <= held.from_s < each.to_s)
                used = max(used, sum(begins))
            elif held.to_s <= at_s < held.to_s + margin_s:
                ends = (each.cpus for each in taken if each.from_s < held.to_s <= each.to_s)
                used = max(used, sum(ends))
        return used

    def _need(self, name: str) -> int:
        resources = self._terms.resources
        return self._capacity[name] if resources is None else resources.cpus

    def _leaves(self, kept: Kept, chosen: Iterable[str]) -> bool:
        """Return whether a parallel task has its places beside these machines."""
        names = set(chosen)
        left = (
            max(0, cpus - (self._need(name) if name in names else 0))
            for name, cpus in kept.free_cpus.items()
        )
        return sum(left) >= kept.ranks


def _choices(free: list[str], kept: Sequence[Kept], nodes: int) -> Iterator[Sequence[str]]:
    """Yield the choices of machines of which one will do, if any does."""
    if len(kept) <= 1:  # those of which it has least are the best
        of_it = kept[0].free_cpus if kept else {}
        yield sorted(free, key=lambda name: of_it.get(name, 0))[:nodes]
    elif comb(len(free), nodes) > CHOICES_MAX:
        raise TooManyChoices
    else:
        yield from combinations(free, nodes)


class BookingJudge:
    """Judges each answer of a broker in a replay."""

    def __init__(self, planned: Planned | None = None, *, each: int = 1) -> None:
        """`each`: of so many answers one is compared."""
        self._planned = planned
        self._each = each
        self._heard = 0
        self.checked = self.could_fit = self.undecided = 0
        """`could_fit`: of all that were refused, those that would fit if no margin was kept."""
        self.wrong: list[str] = []

    def __call__(
        self, state: BrokerState, seek: SeekNodes, offered: NodesOffered, now: Instant
    ) -> None:
        """Judge one answer."""
        self._heard += 1
        try:
            if not self._heard % self._each:
                search = ExhaustiveSearch(state, self._planned, seek, now)
                self._judge(search, seek, offered, now)
                self.checked += 1
            if not offered.machines:
                exact = ExhaustiveSearch(state, self._planned, seek, now, margin_s=0.0)
                self.could_fit += exact.fits
        except TooManyChoices:
            self.undecided += 1

    def _judge(
        self, search: ExhaustiveSearch, seek: SeekNodes, offered: NodesOffered, now: Instant
    ) -> None:
        if search.fits is not bool(offered.machines):
            self.wrong.append(f"{seek.reservation}: it fits: {search.fits}; {offered}")
        elif not offered.machines:
            told_s = offered.earliest_wall_s
            told_s = None if told_s is None else told_s - now.wall_s + now.steady_s
            found_s = search.earliest_s()
            if told_s != found_s:
                self.wrong.append(f"{seek.reservation}: it fits at {found_s}, not at {told_s}")
