"""Short pauses of the garbage collector, however much there is in memory.

A full collection looks at every object: with a million submissions queued that takes seconds, in
which the daemon answers nobody. Nearly all of it is freed by reference counts anyway. So what
survived a long collection is set aside (`gc.freeze`), and the next looks only at what came since. A
cycle that was set aside and dies later is not freed; a small daemon, where collections are short,
sets nothing aside.
"""

from __future__ import annotations

import gc
import time

PAUSE_MAX_S = 0.005
"""A collection that took longer is not made again of the same objects: half as long as a turn of a
broker with its hands full."""
THRESHOLDS = (700, 4, 1)
"""As `gc.set_threshold` takes them. A full collection is due after some 7,000 objects more, a
tenth of what is usual: so it is short even where hundreds of tasks start in a moment."""


class _Pauses:
    """Told of each collection, by `gc.callbacks`."""

    def __init__(self) -> None:
        self._began_s = 0.0

    def __call__(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._began_s = time.perf_counter()
        elif info["generation"] == 2 and time.perf_counter() - self._began_s > PAUSE_MAX_S:
            gc.freeze()


def collect_nothing_yet() -> None:
    """Until `keep_pauses_short`; what is loaded meanwhile lives as long as the process.

    Looking through it again and again was more than half of what the cores of a daemon need for
    100,000 jobs that it finds in its store.
    """
    gc.disable()


def keep_pauses_short() -> None:
    """For the rest of this process; what was loaded so far lives as long, and is set aside."""
    gc.enable()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    gc.callbacks.append(_Pauses())
