"""The leases of attempts whose homes are on other machines: when to ask, and what was answered.

docs/spec/002, section 3, has the rules and their proof. What matters here: a lease counts from
when the node asked, never from when it was answered, and one that is over stays over.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from iriai.model.ids import AttemptId
from iriai.node.held_claim import HeldClaim
from iriai.protocol.messages.scheduling import Renew, Renewed

ASK_PART = 1 / 3
"""Of the shortest lease: two asks more may fail before it is over."""
AGAIN_PART = 1 / 12
"""Of the shortest lease, until an ask is repeated that was not answered."""
AGAIN_MIN_S = 0.1
"""However short a lease: a machine does nothing else if it asks more often."""
PENDING_MAX = 16
"""Asks of a home that may still be answered: more than fit into one lease."""


class _Home:
    """What is leased from one home."""

    def __init__(self, next_ask_s: float) -> None:
        self.held: dict[AttemptId, HeldClaim] = {}
        self.asked: deque[float] = deque(maxlen=PENDING_MAX)
        self.answered_s: float | None = None
        """The latest ask that was answered."""
        self.next_ask_s = next_ask_s

    @property
    def shortest_s(self) -> float:
        """The shortest lease."""
        return min(held.claim.lease_s or 0.0 for held in self.held.values())


class LeaseRenewal:
    """By home; homes of which nothing is held here are forgotten."""

    def __init__(self, machine: str) -> None:
        self._machine = machine
        self._homes: dict[str, _Home] = {}
        self.next_s: float | None = None
        """When a home must be asked next; None: none must."""

    def add(self, held: HeldClaim, now_s: float) -> None:
        """A claim with a lease; without a beginning of it, the home is asked at once."""
        lease_s = held.claim.lease_s
        assert lease_s is not None
        began_s = held.leased_steady_s
        ask_s = now_s if began_s is None else began_s + lease_s * ASK_PART
        name = held.claim.attempt.home
        home = self._homes.get(name)
        if home is None:
            home = self._homes[name] = _Home(ask_s)
        home.held[held.claim.attempt] = held
        home.next_ask_s = min(home.next_ask_s, ask_s)
        self._plan()

    def remove(self, attempt: AttemptId) -> None:
        """The attempt is over."""
        home = self._homes.get(attempt.home)
        if home is not None and home.held.pop(attempt, None) is not None and not home.held:
            del self._homes[attempt.home]
            self._plan()

    def of(self, home: str) -> list[HeldClaim]:
        """All that are leased from a home."""
        known = self._homes.get(home)
        return list(known.held.values()) if known else []

    def ask_soon(self, home: str, now_s: float) -> None:
        """The home can be reached again: what was asked may be lost."""
        known = self._homes.get(home)
        if known is not None:
            known.next_ask_s = min(known.next_ask_s, now_s)
            self._plan()

    def _plan(self) -> None:
        """Some home is to be asked at another time than before."""
        self.next_s = min((home.next_ask_s for home in self._homes.values()), default=None)

    def due(self, now_s: float) -> list[tuple[str, Renew]]:
        """What homes are to be asked now."""
        asks = []
        for name, home in self._homes.items():
            if home.next_ask_s > now_s:
                continue
            home.asked.append(now_s)
            home.next_ask_s = now_s + max(AGAIN_MIN_S, home.shortest_s * AGAIN_PART)
            unconfirmed = tuple(a for a, held in home.held.items() if not held.is_confirmed)
            asks.append((name, Renew(self._machine, now_s, unconfirmed)))
        self._plan()
        return asks

    def answered(self, renewed: Renewed, now_s: float) -> list[HeldClaim] | None:
        """Take an answer in; returns the claims that it confirmed, which may start now.

        None: it is the answer to nothing that was asked.
        """
        home = self._homes.get(renewed.home)
        asked_s = renewed.asked_steady_s
        if home is None or asked_s not in home.asked:
            return None
        while home.asked and home.asked[0] <= asked_s:
            home.asked.popleft()
        home.answered_s = max(asked_s, home.answered_s or 0.0)
        named = dict.fromkeys(renewed.confirmed)
        confirmed = []
        for attempt, held in home.held.items():
            if held.is_confirmed or held.started_wall_s is not None:
                held.renew(asked_s, now_s)
            elif attempt in named:
                held.renew(asked_s, now_s)
                confirmed.append(held)
        if all(held.is_confirmed for held in home.held.values()):
            home.next_ask_s = asked_s + max(AGAIN_MIN_S, home.shortest_s * ASK_PART)
            self._plan()
        return confirmed

    def answers(self) -> Iterator[tuple[str, float]]:
        """The latest ask of each home that was answered."""
        for name, home in self._homes.items():
            if home.answered_s is not None:
                yield name, home.answered_s

    def lapsed(self, now_s: float) -> list[HeldClaim]:
        """Claims whose start was never ordered, and whose lease has gone by.

        Where it was, only the launcher can tell whether it runs, and ends it in time.
        """
        return [
            held
            for home in self._homes.values()
            for held in home.held.values()
            if not held.is_ordered and held.end is None and held.has_lapsed(now_s)
        ]
