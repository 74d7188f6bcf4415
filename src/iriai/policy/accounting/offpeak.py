"""Off-peak time, from the loads of all machines, published by the broker."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

LOAD_PER_CPU_MAX = 0.5
"""Off-peak begins where the mean load for each CPU is at most this: half of the CPUs are free."""
HYSTERESIS = 0.1
"""Off-peak ends this much above where it began, so that one job does not toggle it."""
LOAD_MAX_PAPER000 = 1.0
"""Paper 000, section 5.4: its machines have one cpu and run one job of a group at a time."""
NEWS_AGE_MAX_S = 60.0
"""An older report counts as peak: a machine without connection must not charge half for long."""


class OffpeakRule(NamedTuple):
    """One definition of off-peak: a mean over the machines, and a bound for it."""

    is_per_cpu: bool
    bound: float
    hysteresis: float

    @staticmethod
    def named(name: str) -> OffpeakRule:
        """Return the rule of that name in `[order] offpeak`."""
        return {"load-per-cpu": PER_CPU, "paper000": PAPER000}[name]

    def measure(self, load_average: float, cpus: int) -> float:
        """Return what one machine adds to the mean."""
        return load_average / (cpus if self.is_per_cpu else 1)

    def is_offpeak(self, mean: float | None, was_offpeak: bool) -> bool:
        """Return whether it is off-peak by the mean over all machines; None counts as peak."""
        return mean is not None and mean <= self.bound + (self.hysteresis if was_offpeak else 0.0)


PER_CPU = OffpeakRule(True, LOAD_PER_CPU_MAX, HYSTERESIS)
"""By mean load for each cpu, with hysteresis."""
PAPER000 = OffpeakRule(False, LOAD_MAX_PAPER000, 0.0)
"""By mean load average of the machines, as paper 000 has it."""

REPEAT_S = 30.0
"""Half of the time for which nodes believe it: one message may be lost."""


class OffpeakPublisher:
    """The loads that machines report, and the off-peak factor last sent to them.

    One step for each report that brings a load; the machines are told on change, and again and
    again while it is off-peak, since old news count as peak.
    """

    def __init__(self, rule: OffpeakRule) -> None:
        self._rule = rule
        self._loads: dict[str, float] = {}
        """What the rule makes of each machine's load."""
        self._sum = 0.0
        self._updates = 0
        self.is_offpeak = False
        """Whether the published state is off-peak."""
        self.next_s: float | None = None
        """When the state must be published again; None: when a load changes."""
        self._has_news = False
        """Whether a load was reported, or is not known any more, since it was last published."""
        self._newcomers: list[str] = []
        """Came while it was off-peak, and were not told."""

    def measured(self, machine: str, load_average: float, cpus: int) -> None:
        """Take the load that a machine reports."""
        if self.is_offpeak and machine not in self._loads:
            self._newcomers.append(machine)
        load = self._rule.measure(load_average, max(1, cpus))
        self._has_news = True
        self._sum += load - self._loads.get(machine, 0.0)
        self._loads[machine] = load
        self._count_update()

    def away(self, machine: str) -> None:
        """Drop the load of a machine that is away."""
        if machine in self._loads:
            self._sum -= self._loads.pop(machine)
            self._has_news = True
            self._count_update()

    def publish(self, machines: Iterable[str], now_s: float) -> list[str]:
        """Return those of `machines` that must be told `is_offpeak` now: none, mostly."""
        if not self._has_news and self.next_s is None:
            return []
        self._has_news = False
        count = len(self._loads)
        mean = self._sum / count if count else None
        is_offpeak = self._rule.is_offpeak(mean, self.is_offpeak)
        is_due = self.next_s is not None and now_s >= self.next_s
        newcomers, self._newcomers = self._newcomers, []
        if is_offpeak is not self.is_offpeak or is_due:
            self.is_offpeak = is_offpeak
            self.next_s = now_s + REPEAT_S if is_offpeak else None
        else:
            machines = [machine for machine in newcomers if machine in self._loads]
        return list(machines)

    def _count_update(self) -> None:
        """Sums of differences drift; a sum anew for each round of updates costs one step each."""
        self._updates += 1
        if self._updates > len(self._loads):
            self._updates = 0
            self._sum = sum(self._loads.values())


class OffpeakHours:
    """The amount of off-peak time, by reports that hold for `NEWS_AGE_MAX_S` each."""

    def __init__(self) -> None:
        self._before_s = 0.0
        self._since_s = 0.0
        self._until_s = 0.0

    def set_published(self, is_offpeak: bool, now_s: float) -> None:
        """Take the state that the broker publishes."""
        self._before_s = self.so_far_s(now_s)
        self._since_s = now_s
        self._until_s = now_s + (NEWS_AGE_MAX_S if is_offpeak else 0.0)

    def is_offpeak(self, now_s: float) -> bool:
        """Return whether it is off-peak."""
        return now_s < self._until_s

    def so_far_s(self, now_s: float) -> float:
        """Return the off-peak seconds until now, since the first report."""
        return self._before_s + max(0.0, min(now_s, self._until_s) - self._since_s)
