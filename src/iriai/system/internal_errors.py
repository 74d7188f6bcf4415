"""Internal errors that end one connection or request while the daemon goes on.

Whatever a peer's bytes can reach is guarded by this one place: the connection or request is over,
the log says why, and `status` counts it. Not guarded are the turns of the cores, what leaves them,
and the store: an error there leaves them in doubt, and the daemon begins again from what is stored
(ADR 0087).
"""

from __future__ import annotations

import logging
import traceback
from collections import Counter
from collections.abc import Callable
from typing import ParamSpec

log = logging.getLogger(__name__)

P = ParamSpec("P")

PLACES_MAX = 256
"""Places in our source whose errors are counted separately; there are not so many mistakes."""
PLACE_CHARACTERS_MAX = 1_000
"""Length of the description of a place, its end: as much as `Name` accepts in a message."""


class InternalErrors:
    """The number of internal errors of a process, and the place of the last."""

    def __init__(self) -> None:
        self.count = 0
        self.last = ""
        """Its class and the line of our source that raised it."""
        self._by_place: Counter[str] = Counter()

    def note(self, what: str, error: Exception) -> str:
        """Count and log an error that ended `what`; return a sentence for the other side."""
        self.add(f"an internal error of iriai ended {what}", error)
        return f"an internal error of iriai: {type(error).__name__}: {error}"

    def add(self, sentence: str, error: Exception) -> None:
        """Count an error; log `sentence` with the first, tenth, hundredth error of each place."""
        self.count += 1
        frame = traceback.extract_tb(error.__traceback__)[-1:]
        place = f" at {frame[0].filename}:{frame[0].lineno}" if frame else ""
        place = self.last = f"{type(error).__name__}{place}"[-PLACE_CHARACTERS_MAX:]
        if len(self._by_place) < PLACES_MAX or place in self._by_place:
            self._by_place[place] += 1
        times = self._by_place[place]
        if str(times).rstrip("0") == "1":
            more = f" ({times} times)" if times > 1 else ""
            log.error("%s%s", sentence, more, exc_info=error)

    def trouble(self) -> list[str]:
        """Return a line for `status` and `doctor`, or nothing if there were no errors."""
        if not self.count:
            return []
        return [trouble_line("ended a connection or request", self.count, self.last, "daemon")]


def trouble_line(did: str, count: int, last: str, part: str) -> str:
    """Return the line for `status` and `doctor` of the internal errors in `part`; each `did` it."""
    times = "once" if count == 1 else f"{count} times"
    report = f"please report it, with log/{part}.log"
    return f"an internal error of iriai {did} {times}, the last: {last}; {report}"


FAULTS = InternalErrors()
"""Of this daemon, since it began."""


def guarded(what: str, action: Callable[P, None]) -> Callable[P, None]:
    """Wrap a timer or listener so that its errors end `what` and nothing else."""

    def call(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            action(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - see the module
            FAULTS.note(what, error)

    return call
