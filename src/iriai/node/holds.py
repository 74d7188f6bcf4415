"""Claims that are held: each ends by itself unless its home confirms it (docs/spec/011, section 5).

They cost the machine what they hold. So a home may have a bounded number at a time, and one whose
holds expire again and again must wait longer and longer before the next.
"""

from __future__ import annotations

from dataclasses import dataclass

from iriai.model.ids import AttemptId
from iriai.model.ranks import SEATS_MAX
from iriai.model.reason import Reason, Rule

HELD_MAX = SEATS_MAX
"""Claims that a home may hold on one machine at a time."""
EXPIRED_MAX = 3
"""Holds of a home that may expire in a row before its next ones are refused for a time."""
PAUSE_MIN_S = 1.0
PAUSE_MAX_S = 300.0
"""How long they are refused: the shortest, doubled with each that expires, to the longest."""
HOMES_MAX = 4_096
"""Homes whose expired holds are counted; of more the first is forgotten."""


@dataclass(slots=True)
class _Expired:
    """The holds of a home that have expired since it last confirmed one."""

    count: int = 0
    until_s: float = 0.0
    """Until when its holds are refused."""


class Holds:
    """When each held claim of a machine ends, and which homes may hold more."""

    def __init__(self, machine: str) -> None:
        self._machine = machine
        self.until_s: dict[AttemptId, float] = {}
        """When each ends, by the steady clock; only methods of this class change it."""
        self._counts: dict[str, int] = {}
        """How many claims each home holds."""
        self._expired: dict[str, _Expired] = {}

    def __contains__(self, attempt: AttemptId) -> bool:
        return attempt in self.until_s

    def refusal(self, home: str, now_s: float) -> Reason | None:
        """Return why a home may hold nothing more here now; None: it may."""
        expired = self._expired.get(home)
        if expired is not None and now_s < expired.until_s:
            had = f"the last {expired.count} of {home} expired without its word"
            left = f"{expired.until_s - now_s:.0f} s to pass"
            return Reason(Rule.HOLD_EXPIRED, left, had, self._machine)
        if self._counts.get(home, 0) >= HELD_MAX:
            had = f"{home} holds {HELD_MAX} claims"
            return Reason(Rule.MACHINE_BUSY, "fewer claims that are held", had, self._machine)
        return None

    def add(self, attempt: AttemptId, until_s: float) -> None:
        """Add a claim that is held until then, by the steady clock."""
        self.until_s[attempt] = until_s
        self._counts[attempt.home] = self._counts.get(attempt.home, 0) + 1

    def confirmed(self, attempt: AttemptId) -> None:
        """Note that a home confirmed a claim in time."""
        self._expired.pop(attempt.home, None)
        self.remove(attempt)

    def remove(self, attempt: AttemptId) -> None:
        """Note that a claim is held no longer."""
        if self.until_s.pop(attempt, None) is None:
            return
        self._counts[attempt.home] -= 1
        if not self._counts[attempt.home]:
            del self._counts[attempt.home]

    def over(self, now_s: float) -> list[AttemptId]:
        """Return the claims that have expired, which count against their homes."""
        found = [attempt for attempt, until_s in self.until_s.items() if until_s <= now_s]
        for attempt in found:
            self.remove(attempt)
            self._count(attempt.home, now_s)
        return found

    def _count(self, home: str, now_s: float) -> None:
        expired = self._expired.pop(home, None) or _Expired()
        self._expired[home] = expired
        if len(self._expired) > HOMES_MAX:
            del self._expired[next(iter(self._expired))]
        expired.count += 1
        if expired.count >= EXPIRED_MAX:
            doublings = min(expired.count - EXPIRED_MAX, 16)
            expired.until_s = now_s + min(PAUSE_MAX_S, PAUSE_MIN_S * 2.0**doublings)
