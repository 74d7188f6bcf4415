"""Off-peak time, from the loads of all machines, published by the broker."""

from __future__ import annotations

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
