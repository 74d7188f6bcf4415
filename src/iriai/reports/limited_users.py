"""Users who were refused or slowed by a limit, for `status` and `doctor`."""

from __future__ import annotations

from collections.abc import Mapping

from iriai.identity.users.permissions import Caller
from iriai.wire.reports import LimitedRow

ROWS_MAX = 100
"""Of one reply: the users who were limited most often."""


class LimitedUsers:
    """Users of one daemon who were limited since it started."""

    def __init__(self) -> None:
        self._counts: list[tuple[str, Mapping[str, int]]] = []

    def watch(self, limits: Mapping[str, Mapping[str, int]]) -> None:
        """Include these counters in `rows`: by limit, how often each user was refused or slowed."""
        self._counts += limits.items()

    def rows(self, caller: Caller) -> tuple[LimitedRow, ...]:
        """Return the counts that `caller` may see: all for an operator, else their own."""
        rows = [
            LimitedRow(user, limit, times)
            for limit, counts in self._counts
            for user, times in counts.items()
            if caller.own in (None, user)
        ]
        return tuple(sorted(rows, key=lambda row: (-row.times, row.user, row.limit))[:ROWS_MAX])
