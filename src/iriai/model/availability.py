"""Steadiness: the share of the time that a machine is online; its weight as a candidate.

Older time counts less: it is halved each week, so that a machine whose owner or use changes has a
new value within weeks. A new machine has a middle value.
"""

from __future__ import annotations

from math import inf, log

import msgspec

from iriai.model.bounds import Amount, Real

HALF_LIFE_S = 7 * 86_400.0
"""The half-life of observations: people's habits have the period of a week."""
PRIOR_S, PRIOR_STEADINESS = 6 * 3600.0, 0.7
"""The assumed history of an unknown machine. It begins in the middle weight; some thirty hours
without a gap bring it to the highest, one restart takes nothing away."""
_FULL_S = HALF_LIFE_S / log(2)
"""Weight of an infinite time, which is finite because of the decay."""


class Steadiness(msgspec.Struct, frozen=True):
    """Seconds online and seconds offline, as they count at `wall_s`."""

    there_s: Amount = 0.0
    away_s: Amount = 0.0
    wall_s: Real = -inf
    """The time of the last observation; -inf: none yet."""

    @property
    def value(self) -> float:
        """Return the part of the time that it is online, from 0 to 1."""
        there_s = PRIOR_S * PRIOR_STEADINESS + self.there_s
        return there_s / (PRIOR_S + self.there_s + self.away_s)

    def seen(self, wall_s: float, *, there: bool) -> Steadiness:
        """Count the time since the last observation as online or offline.

        If the clock went back, no time counts.
        """
        passed_s = max(0.0, wall_s - self.wall_s) if self.wall_s > -inf else 0.0
        kept = 0.5 ** (passed_s / HALF_LIFE_S)
        counts_s = _FULL_S * (1.0 - kept)
        return Steadiness(
            self.there_s * kept + (counts_s if there else 0.0),
            self.away_s * kept + (0.0 if there else counts_s),
            wall_s,
        )
