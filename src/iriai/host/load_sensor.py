"""The load of the machine, and the part that does not come from tasks of iriai.

The kernel's load average counts processes that run or want to run, smoothed over a minute. What
iriai's tasks add is smoothed in the same way before it is subtracted: otherwise it would count as
foreign for the minute after their end. It is what they use, or the number of their threads that
run or want to: those are counted only where what they use does not explain the load. Another back
end on this host counts as foreign.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from math import exp, isfinite
from pathlib import Path

from iriai.model.ids import AttemptId
from iriai.protocol.messages.effects import (
    AttemptExited,
    AttemptFrozen,
    AttemptsSampled,
    AttemptStarted,
    LauncherAttached,
    LauncherEvent,
    LoadMeasured,
)

CONSOLES = ("/dev/tty[0-9]*", "/dev/console")
TERMINALS = ("/dev/pts/[0-9]*",)
"""The kernel records the time of input there, to eight seconds, which is precise enough. In a
graphical session this covers the terminals in its windows, not the mouse."""


def idle_s() -> tuple[float | None, float | None]:
    """Return seconds since input on any terminal, and on a console; None: there is none."""
    consoles = [*_used_wall_s(CONSOLES)]
    terminals = [*consoles, *_used_wall_s(TERMINALS)]
    return _since_s(terminals), _since_s(consoles)


def _since_s(used_wall_s: list[float]) -> float | None:
    return max(0.0, time.time() - max(used_wall_s)) if used_wall_s else None


def _used_wall_s(patterns: Iterable[str]) -> Iterator[float]:
    for pattern in patterns:
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
UNEXPLAINED = 0.2
"""Of the load of our tasks' machine: with more, their threads are counted."""
COUNT_MAX_S = 0.02
"""How long that may take. Whoever has more threads than can be counted in it is not helped."""


class _TaskUse:
    """What is known of one running attempt."""

    __slots__ = ("cpu_s", "is_frozen", "load", "read_s")

    def __init__(self, cpu_s: float | None, load: float, read_s: float) -> None:
        self.cpu_s = cpu_s
        """CPU seconds when it was last read; None: it ran before anybody looked."""
        self.load = load
        """The processors that it has been using since, as far as is known."""
        self.read_s = read_s
        self.is_frozen = False


class OwnLoad:
    """What iriai's tasks add to the load average.

    Their usage is read once a minute. Until then each counts as it did before that, at first with
    all of its cpus; what it used is put right when it is read.
    """

    def __init__(self, cpus_of: Callable[[AttemptId], int], now_s: float) -> None:
        self._cpus_of = cpus_of
        self._tasks: dict[AttemptId, _TaskUse] = {}
        self._running = 0.0
        """The sum of the loads of those that are not frozen."""
        self._load = 0.0
        self._as_of_s = now_s
        self._threads = 0.0
        """What their threads add, by the counts until now."""
        self._counted_s = now_s

    @property
    def has_tasks(self) -> bool:
        """Return whether any runs that is not frozen."""
        return any(not each.is_frozen for each in self._tasks.values())

    def threads_at(self, now_s: float, count: Callable[[], int]) -> float:
        """Return what their threads add to the load average; `count` returns how many run now.

        What was not counted meanwhile counts as now, since tasks run that long.
        """
        part = 1.0 - exp(-max(0.0, now_s - self._counted_s) / SMOOTHED_S)
        self._threads += (count() - self._threads) * part
        self._counted_s = now_s
        return self._threads

    def _begin_threads(self, now_s: float) -> None:
        """Count threads from now on: none ran until now."""
        self._threads *= exp(-max(0.0, now_s - self._counted_s) / SMOOTHED_S)
        self._counted_s = now_s

    def at(self, now_s: float) -> float:
        """Return what they add to the load average at a moment, no earlier than the last."""
        part = 1.0 - exp(-max(0.0, now_s - self._as_of_s) / SMOOTHED_S)
        self._load = max(0.0, self._load + (self._running - self._load) * part)
        self._as_of_s = max(now_s, self._as_of_s)
        return self._load

    def on_event(self, event: LauncherEvent, now_s: float) -> None:
        """Handle a report of the launcher."""
        match event:
            case AttemptStarted(attempt):
                self.at(now_s)
                if not self._tasks:
                    self._begin_threads(now_s)
                load = float(self._cpus_of(attempt))
                self._tasks[attempt] = _TaskUse(0.0, load, now_s)
                self._running += load
            case AttemptExited():
                self._read(event.attempt, event.usage.cpu_s, now_s)
                task = self._tasks.pop(event.attempt, None)
                if task is not None and not task.is_frozen:
                    self._running -= task.load
            case AttemptFrozen():
                self.at(now_s)
                if not self.has_tasks:
                    self._begin_threads(now_s)
                if event.attempt in self._tasks:
                    self._tasks[event.attempt].is_frozen = bool(event.reasons)
                self._add_up()
            case LauncherAttached(alive):
                self.at(now_s)
                known = self._tasks
                self._tasks = {
                    attempt: known.get(attempt)
                    or _TaskUse(None, float(self._cpus_of(attempt)), now_s)
                    for attempt, _ in alive
                }
                self._add_up()
            case AttemptsSampled(samples):
                for attempt, usage in samples:
                    self._read(attempt, usage.cpu_s, now_s)
                self._add_up()
            case _:
                pass

    def _add_up(self) -> None:
        """Add up what is running, so that no error of rounding grows."""
        self._running = sum(each.load for each in self._tasks.values() if not each.is_frozen)

    def _read(self, attempt: AttemptId, cpu_s: float, now_s: float) -> None:
        """Count what an attempt has used since it was last read, in place of what was assumed."""
        task = self._tasks.get(attempt)
        if task is None:
            return
        self.at(now_s)
        lasted_s = now_s - task.read_s
        if task.cpu_s is not None and lasted_s > 0.0:
            load = max(0.0, cpu_s - task.cpu_s) / lasted_s
            if not task.is_frozen:
                part = 1.0 - exp(-lasted_s / SMOOTHED_S)
                self._load = max(0.0, self._load + (load - task.load) * part)
                self._running += load - task.load
            task.load = load
        task.cpu_s, task.read_s = cpu_s, now_s


class LoadSensor:
    """Measures the load of the machine, and the part that does not come from tasks of iriai."""

    def __init__(
        self,
        path: str,
        tell: Callable[[LauncherEvent], None],
        cpus_of: Callable[[AttemptId], int],
        active: Callable[[], int],
        steady_s: float,
    ) -> None:
        """`path` is read like /proc/loadavg; `tell` receives the measurements.

        `cpus_of` returns the cpus of a running attempt, `active` how many threads of our tasks run
        or want to.
        """
        self.average = 0.0
        self.foreign = 0.0
        self.keyboard_idle_s: float | None = None
        """Return the time since the last input on a terminal; None: it is unknown."""
        self.problem = ""
        """Return why the load cannot be measured; empty: it can."""
        self._path = Path(path)
        self._tell = tell
        self._own = OwnLoad(cpus_of, steady_s)
        self._active = active

    def on_event(self, event: LauncherEvent, steady_s: float) -> None:
        """Handle the launcher's events."""
        self._own.on_event(event, steady_s)
        self._tell(event)

    def measure(self, steady_s: float) -> None:
        """Measure the load and report it."""
        own = self._own.at(steady_s)
        try:
            average = float(self._path.read_text().split()[0])
            if not (isfinite(average) and average >= 0):
                raise ValueError
        except (OSError, ValueError, IndexError) as error:
            what = error.strerror if isinstance(error, OSError) else "no load average in it"
            self._cannot(f"the load cannot be read from {self._path}: {what}")
            return
        self.problem = ""
        if average - own > UNEXPLAINED and self._own.has_tasks:
            own = max(own, self._own.threads_at(steady_s, self._active))
        self.average, self.foreign = average, max(0.0, average - own)
        self.keyboard_idle_s, console_s = idle_s()
        self._tell(LoadMeasured(self.average, self.foreign, self.keyboard_idle_s, console_s))

    def _cannot(self, problem: str) -> None:
        if problem != self.problem:
            log.warning("%s", problem)
        self.problem = problem
