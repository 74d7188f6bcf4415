"""Which machines may be booked beside the places of parallel tasks that wait.

A parallel head has its places on no machine in particular, so a booking may take some of its
machines as long as enough are left (docs/spec/017, section 7).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import inf

from iriai.broker.machines.beside_bookings import EARLIER_S
from iriai.broker.reservations.candidates import Candidate
from iriai.broker.state.state import BrokerState
from iriai.model.ids import ReservationId
from iriai.model.resources import Resources
from iriai.policy.placement.bookings import BookedSpan
from iriai.policy.placement.pool_plan import PoolHead

Taken = tuple[Candidate, Resources]
"""A machine, and what a booking takes of it that it has not had."""
PLANS_MAX = 256
"""Heads that one search plans anew beside bookings: each plan looks at a whole pool."""
ROUNDING_S = 1e-3
"""Times are sums: a start that is planned anew from another moment may differ by rounding."""


class ParallelPlaces:
    """The places of one search."""

    def __init__(self, state: BrokerState, reservation: ReservationId, now_s: float) -> None:
        self._state, self._reservation, self._now_s = state, reservation, now_s
        aside = [head for head in state.heads.aside if isinstance(head, PoolHead)]
        self.heads = [*state.heads.by_job.values(), *aside]
        self._has_slack = state.settings.configuration.reservations.policy == "slack"
        self._left = PLANS_MAX

    def ends_s(self) -> list[float]:
        """Return when places end, so that none of them is in the way of a booking from then on."""
        return [_end_s(head) + EARLIER_S for head in self.heads]

    def choose(
        self, able: Sequence[Taken], nodes: int, from_s: float, to_s: float
    ) -> list[Candidate] | None:
        """Return so many machines, the first that will do; None: too few are found.

        They are booked from `from_s` until `to_s`, as a broker counts it, by whatever clock.
        """
        heads = [head for head in self.heads if _overlaps(head, from_s, to_s)]
        if not heads or self._tolerated(heads, able[:nodes]):
            return _machines(able[:nodes])
        by_loss = sorted(able, key=lambda each: _loss(heads, each))
        for order in (able, by_loss):
            chosen: list[Taken] = []
            for each in order:
                if self._tolerated(heads, [*chosen, each]):
                    chosen.append(each)
                    if len(chosen) == nodes:
                        return _machines(chosen)
        return self._planned_anew(heads, _machines(by_loss), nodes, from_s, to_s)

    def _tolerated(self, heads: Iterable[PoolHead], chosen: Iterable[Taken]) -> bool:
        """Return whether heads start as planned, whatever else ends until they are over."""
        claims = [(each.view.name, taken) for each, taken in chosen]
        return all(head.tolerates_all(claims, None, self._now_s) for head in heads)

    def _planned_anew(
        self,
        heads: Sequence[PoolHead],
        able: Iterable[Candidate],
        nodes: int,
        from_s: float,
        to_s: float,
    ) -> list[Candidate] | None:
        """Return machines beside which heads still start in time if they are planned anew.

        With slack that is by what was told; it depends on what else ends while they run, too.
        """
        chosen: list[Candidate] = []
        booked: dict[str, BookedSpan] = {}
        for each in able:
            span = BookedSpan(self._reservation, from_s, to_s, each.need)
            more = {**booked, each.view.name: span}
            if self._left <= 0:
                return None
            self._left -= len(heads)
            if all(self._starts_in_time(head, more) for head in heads):
                chosen.append(each)
                booked = more
                if len(chosen) == nodes:
                    return chosen
        return None

    def _starts_in_time(self, head: PoolHead, booked: Mapping[str, BookedSpan]) -> bool:
        state = self._state
        entry = state.queues.entries.get(head.job)
        pools = state.index.rooms.pools(is_across=head.is_across)
        pool = next((each for each in pools if head.is_across or each.name == head.pool), None)
        if entry is None or pool is None:
            return False
        latest_s = head.start_s
        if self._has_slack and head.told_start_s is not None:
            latest_s = max(latest_s, head.told_start_s)
        planned = state.heads.plan_in(pool, entry, self._now_s, booked=booked)
        return planned is not None and planned.start_s <= latest_s + ROUNDING_S


def _machines(taken: Iterable[Taken]) -> list[Candidate]:
    return [each for each, _ in taken]


def _loss(heads: Iterable[PoolHead], taken: Taken) -> int:
    """Return how much of what heads need a booking would take on a machine."""
    return sum(head.loss(taken[0].view.name, taken[1]) for head in heads)


def _overlaps(head: PoolHead, from_s: float, to_s: float) -> bool:
    return head.start_s - EARLIER_S < to_s and from_s < _end_s(head) + EARLIER_S


def _end_s(head: PoolHead) -> float:
    return head.start_s + (inf if head.stay_s is None else head.stay_s)
