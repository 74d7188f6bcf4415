"""Errors that nobody foresaw: each costs the attempt or message that met it, and is counted.

Guarded by this are whatever a timer, a descriptor or a child's end calls, and what is done for one
attempt. Not guarded are the turn itself and the journal: an error there leaves in doubt what is
written down, and the launcher begins again from that (ADR 0087).
"""

from __future__ import annotations

import logging
import traceback
from collections import Counter

log = logging.getLogger(__name__)

NOT_STARTED = "kept it from starting"
ENDED = "ended it"


class Defects:
    """How many there were since this launcher began."""

    def __init__(self) -> None:
        self.count = 0
        self._by_place: Counter[str] = Counter()
        """By the line of ours that raised."""

    def met(self, doing: str, error: Exception, cost: str = NOT_STARTED) -> str:
        """An error came up in `doing`; returns what whoever waits for that is to be told.

        Logged the first, tenth, hundredth time at each place.
        """
        self.count += 1
        kind = type(error).__name__
        frame = traceback.extract_tb(error.__traceback__)[-1:]
        place = f"{kind} {frame[0].filename}:{frame[0].lineno}" if frame else kind
        self._by_place[place] += 1
        times = self._by_place[place]
        if str(times).rstrip("0") == "1":
            more = f" ({times} times)" if times > 1 else ""
            log.error("defect %d of this launcher, %s%s", self.count, doing, more, exc_info=error)
        return f"a defect of the launcher {cost} ({kind}); its log says where"
