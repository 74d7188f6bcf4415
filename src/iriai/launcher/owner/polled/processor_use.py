"""How much processor time others than our tasks use.

It is the time that the machine worked, less what its tasks and the launcher used: by their parent
control group, which keeps what ended groups used, else by the tree of processes.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from statistics import median
from typing import NamedTuple, Protocol

from iriai.launcher.containment.cgroups.controllers import field_in
from iriai.launcher.owner.polled.polled_sensor import RELIEF, Threshold
from iriai.launcher.owner.polled.reading import CannotLook, read_text
from iriai.model.owner import SignKind
from iriai.system.procfs import TICKS_PER_S

WINDOW_S = 10.0
"""Over this long its median is taken: a moment of work is nobody who works."""
SHORTEST_S = 0.5
"""A shorter interval is not measured: the kernel counts ticks."""
NOISE_PART = 0.02
"""Of the use of our tasks, which two clocks measure, this much may be of nobody."""
STAT_BYTES_MAX = 1 << 16
_STAT_FIELDS = 8
_IDLE = 3, 4, 7
"""Idle, waiting for a disk, and what the host of a virtual machine gave to others."""


class OwnUse(Protocol):
    """What our tasks have used."""

    total_s: float

    def read(self) -> Iterator[None]:
        """Measure it; yields after each small piece of work. Raises OSError."""
        ...


class GroupUse:
    """By a control group."""

    def __init__(self, directory: str, version: int) -> None:
        self._directory, self._version = directory, version
        self.total_s = 0.0

    def read(self) -> Iterator[None]:
        """Measure it. Raises OSError, and `CannotLook` if the kernel's file has no number."""
        yield
        try:
            if self._version == 1:
                self.total_s = int(read_text(f"{self._directory}/cpuacct.usage")) / 1e9
            else:
                text = read_text(f"{self._directory}/cpu.stat").encode()
                self.total_s = field_in(text, b"usage_usec") / 1e6
        except ValueError:
            raise CannotLook(f"{self._directory}: no processor time in it") from None


class TreeUse:
    """By the processes below the launcher, and those that these have waited for."""

    def __init__(self, launcher: int, proc: str = "/proc") -> None:
        self._launcher, self._proc = launcher, proc
        self.total_s = 0.0

    def read(self) -> Iterator[None]:
        """Measure it."""
        ticks, below, known = 0, [self._launcher], dict[int, None]()
        for pid in below:  # grows while it is walked
            yield
            if pid in known:  # its number was given away meanwhile
                continue
            known[pid] = None
            place = f"{self._proc}/{pid}"
            try:
                text = read_text(f"{place}/stat")
                ticks += sum(map(int, text[text.rindex(")") + 2 :].split()[11:15]))
                for thread in os.listdir(f"{place}/task"):
                    yield
                    children = read_text(f"{place}/task/{thread}/children", STAT_BYTES_MAX)
                    below += map(int, children.split())
            except (OSError, ValueError):  # it has ended
                continue
        self.total_s = ticks / TICKS_PER_S


class _Use(NamedTuple):
    at_s: float
    machine_s: float
    own_s: float


class ProcessorProbe:
    """Measures it at each look."""

    kind = SignKind.CPU

    def __init__(self, most_cpus: float, own: OwnUse, proc: str = "/proc") -> None:
        self._most_cpus = most_cpus
        self._threshold = Threshold(most_cpus, most_cpus * RELIEF)
        self._own, self._proc = own, proc
        self._last: _Use | None = None
        self._rates: deque[tuple[float, float]] = deque()
        """When it was measured, and the processors that others used until then."""
        self.cpus = 0.0
        self.holds = False
        self.note = "measures"

    def look(self, now_s: float) -> Iterator[None]:
        """Measure it; raises `CannotLook` and OSError."""
        yield from self._own.read()
        use = _Use(now_s, _machine_s(read_text(f"{self._proc}/stat")), self._own.total_s)
        last = self._last
        if last is not None and 0.0 <= now_s - last.at_s < SHORTEST_S:
            return
        self._last = use
        lasted_s = 0.0 if last is None else now_s - last.at_s
        if last is None or lasted_s <= 0.0:
            return
        own_s = max(0.0, use.own_s - last.own_s)
        others_s = max(0.0, use.machine_s - last.machine_s - own_s * (1.0 + NOISE_PART))
        self._rates.append((now_s, others_s / lasted_s))
        while self._rates[0][0] <= now_s - WINDOW_S:
            self._rates.popleft()
        self.cpus = median(rate for _, rate in self._rates)
        self.holds = self._threshold.take(self.cpus)
        self.note = f"others use {self.cpus:.1f} cpus, the bound is {self._most_cpus:g}"

    def close(self) -> None:
        """It has nothing open."""


def _machine_s(text: str) -> float:
    """Return for how long the processors have worked, by /proc/stat."""
    fields = text.partition("\n")[0].split()
    if len(fields) <= _STAT_FIELDS or fields[0] != "cpu":
        raise CannotLook("/proc/stat: no processor time in it")
    try:
        ticks = [int(each) for each in fields[1 : _STAT_FIELDS + 1]]
    except ValueError:
        raise CannotLook("/proc/stat: no processor time in it") from None
    return sum(each for place, each in enumerate(ticks) if place not in _IDLE) / TICKS_PER_S
