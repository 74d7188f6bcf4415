"""When a node of a reservation is lost, and how another one is sought (docs/spec/017, section 4).

A node is lost while it keeps nothing of its booking, says that nothing can run in it, or cannot be
reached for long. Another node comes with a next version, as if the reservation was modified; the
one that was lost stands again if it is back before that.
"""

from __future__ import annotations

from math import inf

from iriai.home.reservations.modification import STANDS, Modification
from iriai.home.reservations.negotiation import Negotiation
from iriai.home.reservations.stored_reservations import StoredReservations
from iriai.model.backoff import pause_s
from iriai.model.instant import Instant
from iriai.model.reservation import LENGTH_MIN_S, Reservation

AGAIN_FIRST_S = 10.0
"""Until other nodes are sought again for the first time, where there were none."""
AGAIN_MAX_S = 600.0


class Replacement:
    """Seeks nodes in place of those that reservations have lost."""

    def __init__(
        self, stored: StoredReservations, standing: Negotiation, modification: Modification
    ) -> None:
        self._stored = stored
        self._standing = standing
        self._modification = modification
        self._down_s: dict[str, float] = {}
        """Since when nodes of reservations that stand cannot be reached, by the steady clock."""
        self._tries: dict[int, int] = {}
        """How often nodes were sought, by number of each reservation that is degraded."""
        self._due_s: dict[int, float] = {}
        """When they are sought again."""

    # --- which nodes are lost --------------------------------------------------------------------

    def rejoin(self, now: Instant) -> None:
        """After a restart: all other machines are away until their links are there."""
        for reservation in self._standing_ones():
            for machine in reservation.nodes:
                if machine != self._stored.home:
                    self._down_s[machine] = now.steady_s

    def link_down(self, machine: str, now: Instant) -> None:
        """Note that a machine cannot be reached any more."""
        if any(machine in each.nodes for each in self._standing_ones()):
            self._down_s.setdefault(machine, now.steady_s)

    def link_up(self, machine: str) -> None:
        """Note that a machine can be reached again; it says by itself what it keeps."""
        self._down_s.pop(machine, None)

    def _note_lost(self, now: Instant) -> None:
        """Let reservations lack the nodes that have been away for too long."""
        lost_s = self._stored.limits.lost_s
        lost = [each for each, since_s in self._down_s.items() if since_s + lost_s <= now.steady_s]
        for machine in lost:
            del self._down_s[machine]
            for reservation in list(self._standing_ones()):
                if machine in reservation.nodes and machine not in reservation.missing:
                    self._standing.note_missing(reservation, machine)

    def _standing_ones(self) -> list[Reservation]:
        return [each for each in self._stored.by_number.values() if each.state in STANDS]

    # --- others in their place -------------------------------------------------------------------

    def settle(self, now: Instant) -> None:
        """Seek nodes for what is degraded, and no longer for what is not."""
        if self._down_s:
            self._note_lost(now)
        for number in [each for each in self._due_s if each not in self._stored.degraded]:
            self._modification.end_replacement(number, now)
            if self._due_s[number] <= now.steady_s:  # it has been well since then
                del self._tries[number], self._due_s[number]
        for number in list(self._stored.degraded):
            self._tries.setdefault(number, 0)
            due_s = self._due_s.setdefault(number, now.steady_s)
            if due_s <= now.steady_s:
                self._seek(number, now)

    def _seek(self, number: int, now: Instant) -> None:
        tries = self._tries[number]
        self._tries[number] = tries + 1
        self._due_s[number] = now.steady_s + pause_s(tries, AGAIN_FIRST_S, AGAIN_MAX_S)
        self._standing.ask_missing(number)
        left_s = self._stored.by_number[number].terms.end_wall_s - now.wall_s
        if left_s >= LENGTH_MIN_S and not self._modification.is_under_way(number):
            self._modification.replace_missing(number, now)

    @property
    def next_s(self) -> float:
        """Return when `settle` has something to do, by the steady clock; inf: never."""
        lost_s = self._stored.limits.lost_s
        away_s = min(self._down_s.values(), default=inf) + lost_s
        return min(away_s, min(self._due_s.values(), default=inf))

    def check(self) -> None:
        """Raise if something is sought for what lacks nothing."""
        assert self._tries.keys() == self._due_s.keys()
