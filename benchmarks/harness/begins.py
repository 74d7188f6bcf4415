"""When tasks began, as seen from outside while they write themselves into files."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path

LOOK_S = 0.05
_MARK = b" begin\n"


class Begins:
    """Looks into each home's file again and again, from its making to `stop`."""

    def __init__(self, files: Mapping[str, Path]) -> None:
        self.moments_s: dict[str, list[float]] = {name: [] for name in files}
        """By home when each attempt began, on the monotonic clock, to `LOOK_S`."""
        self._files = files
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def count(self) -> int:
        """How many attempts have begun so far."""
        return sum(map(len, self.moments_s.values()))

    def stop(self) -> None:
        """Look no longer."""
        self._is_over.set()
        self._thread.join()

    def longest_pause_s(self, names: Iterable[str], began_s: float, ended_s: float) -> float:
        """Return the longest time within these moments in which none of `names` began a task.

        A home that has nothing left to begin does not pause: it counts until its last begin.
        """
        every = sorted(moment for name in names for moment in self.moments_s[name])
        inside = [began_s, *(moment for moment in every if began_s < moment <= ended_s)]
        if every and every[-1] > ended_s:
            inside.append(ended_s)
        return max((b - a for a, b in pairwise(inside)), default=0.0)

    def _look(self) -> None:
        seen = dict.fromkeys(self._files, 0)
        while not self._is_over.wait(LOOK_S):
            for name, path in self._files.items():
                count = path.read_bytes().count(_MARK)
                self.moments_s[name] += [time.monotonic()] * (count - seen[name])
                seen[name] = count
