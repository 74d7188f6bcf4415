"""Errors that nobody foresaw: each costs the attempt or message that met it, and is counted.

Guarded by this are whatever a timer, a descriptor or a child's end calls, and what is done for one
attempt. Not guarded are the turn itself and the journal: an error there leaves in doubt what is
written down, and the launcher begins again from that (ADR 0087).
"""

from __future__ import annotations

import logging
import traceback
from collections import Counter

from iriai.launcher.contract.messages import Defective

log = logging.getLogger(__name__)

NOT_STARTED = "kept it from starting"
ENDED = "ended it"
PLACES_MAX = 256
"""Lines of ours whose errors are told apart; there are not so many mistakes."""
PLACE_CHARACTERS_MAX = 1_000
"""Of what is said of a place, its end: a daemon takes no more than `Name` in."""


class Defects:
    """How many there were since this launcher began."""

    def __init__(self) -> None:
        self.count = 0
        self._last = ""
        self._told = 0
        self._by_place: Counter[str] = Counter()
        """By the line of ours that raised."""

    def so_far(self) -> Defective | None:
        """What a daemon that comes is to be told; None: there was none."""
        self._told = self.count
        return Defective(self.count, self._last) if self.count else None

    def news(self) -> Defective | None:
        """The same for the one that is there, where there was another since it was told."""
        return self.so_far() if self.count != self._told else None

    def record(self, doing: str, error: Exception, cost: str = NOT_STARTED) -> str:
        """An error came up in `doing`; returns what whoever waits for that is to be told.

        Logged the first, tenth, hundredth time at each place.
        """
        self.count += 1
        kind = type(error).__name__
        frame = traceback.extract_tb(error.__traceback__)[-1:]
        place = f"{kind} at {frame[0].filename}:{frame[0].lineno}" if frame else kind
        place = self._last = place[-PLACE_CHARACTERS_MAX:]
        if len(self._by_place) < PLACES_MAX or place in self._by_place:
            self._by_place[place] += 1
        times = self._by_place[place]
        if str(times).rstrip("0") == "1":
            more = f" ({times} times)" if times > 1 else ""
            log.error("defect %d of this launcher, %s%s", self.count, doing, more, exc_info=error)
        return f"a defect of the launcher {cost} ({kind}); its log says where"
