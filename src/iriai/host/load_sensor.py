"""The load of the machine, and the part that does not come from tasks of iriai.

The kernel's load average counts processes that run or want to run, smoothed over a minute. The
usage of iriai's tasks is smoothed in the same way before it is subtracted: otherwise it would count
as foreign for the minute after their end. Threads of tasks that wait for a processor still count as
foreign, and so does another back end on this host.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from math import exp, isfinite
from pathlib import Path

from iriai.model.ids import AttemptId
from iriai.protocol.messages.effects import (
    AttemptExited,
    AttemptsSampled,
    LauncherAttached,
    LauncherEvent,
    LoadMeasured,
)

TERMINALS = ("/dev/pts/[0-9]*", "/dev/tty[0-9]*", "/dev/console")
"""The kernel records the time of input there, to eight seconds, which is precise enough. In a
graphical session this covers the terminals in its windows, not the mouse."""


def keyboard_idle_s() -> float | None:
    """Return seconds since the last input on any terminal; None: there is no terminal."""
    found = list(_used_wall_s())
    return max(0.0, time.time() - max(found)) if found else None


def _used_wall_s() -> Iterator[float]:
    for pattern in TERMINALS:
        for path in Path("/").glob(pattern[1:]):
            try:
                yield path.stat().st_atime
            except OSError:  # it was closed in the meantime
                continue


log = logging.getLogger(__name__)

MEASURE_S = 10.0
"""Time between two measurements; a load average hardly changes in less."""
SMOOTHED_S = 60.0
"""Time constant of the kernel's first load average."""


class OwnUse:
    """CPU seconds of iriai's tasks, as the launcher reports them."""

    def __init__(self) -> None:
        self.cpu_s = 0.0
        """CPU seconds since the start, of attempts that were seen from their beginning."""
        self._seen_s: dict[AttemptId, float | None] = {}
        """CPU seconds counted so far by attempt; None: it ran before the first measurement."""

    def on_event(self, event: LauncherEvent) -> None:
        """Handle a report of the launcher."""
        match event:
            case AttemptExited():  # the most frequent
                self._count(event.attempt, event.usage.cpu_s)
                self._seen_s.pop(event.attempt, None)
            case LauncherAttached(alive):
                self._seen_s = dict.fromkeys(attempt for attempt, _ in alive)
            case AttemptsSampled(samples):
                for attempt, usage in samples:
                    self._count(attempt, usage.cpu_s)
            case _:
                pass

    def _count(self, attempt: AttemptId, cpu_s: float) -> None:
        before_s = self._seen_s.get(attempt, 0.0)
        if before_s is not None:
            self.cpu_s += max(0.0, cpu_s - before_s)
        self._seen_s[attempt] = cpu_s


class LoadSensor:
    """Measures the load of the machine, and the part that does not come from tasks of iriai."""

    def __init__(self, path: str, steady_s: float, tell: Callable[[LauncherEvent], None]) -> None:
        """`path` is read like /proc/loadavg; `tell` receives the measurements."""
        self.average = 0.0
        self.foreign = 0.0
        self.keyboard_idle_s: float | None = None
        """Return the time since the last input on a terminal; None: it is unknown."""
        self.problem = ""
        """Return why the load cannot be measured; empty: it can."""
        self._path = Path(path)
        self._tell = tell
        self._own = OwnUse()
        self._own_load = 0.0
        self._counted_s = 0.0
        self._measured_s = steady_s

    def on_event(self, event: LauncherEvent) -> None:
        """Handle the launcher's events."""
        self._own.on_event(event)
        self._tell(event)

    def measure(self, steady_s: float) -> None:
        """Measure the load and report it."""
        interval_s = steady_s - self._measured_s
        if interval_s > 0:
            rate = (self._own.cpu_s - self._counted_s) / interval_s
            kept = exp(-interval_s / SMOOTHED_S)
            self._own_load = self._own_load * kept + rate * (1 - kept)
            self._counted_s, self._measured_s = self._own.cpu_s, steady_s
        try:
            average = float(self._path.read_text().split()[0])
            if not (isfinite(average) and average >= 0):
                raise ValueError
        except (OSError, ValueError, IndexError) as error:
            what = error.strerror if isinstance(error, OSError) else "no load average in it"
            self._cannot(f"the load cannot be read from {self._path}: {what}")
            return
        self.problem = ""
        self.average, self.foreign = average, max(0.0, average - self._own_load)
        self.keyboard_idle_s = keyboard_idle_s()
        self._tell(LoadMeasured(self.average, self.foreign, self.keyboard_idle_s))

    def _cannot(self, problem: str) -> None:
        if problem != self.problem:
            log.warning("%s", problem)
        self.problem = problem
