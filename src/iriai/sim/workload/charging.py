"""Charges of jobs in a replay, as a machine would charge them.

A node charges what runs in slices, from when something began to run on a machine at rest, and each
job at its end (`node.core`, `node.metering`). Between two passes nobody sees the slices: here all
of them are charged at once when a pass comes, or the end, as one charge at the moment of the last
that has decayed to the same by then. So a long job costs a few steps and not thousands, and every
draw sees what the broker of a real machine would.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from math import ceil, expm1, floor, inf, log
from typing import NamedTuple

from iriai.broker.usage.usage import UsageAccounts
from iriai.model.ids import Account
from iriai.model.resources import Resources
from iriai.node.metering import SLICE_S, UsageCounters
from iriai.policy.accounting.decay import ChargeRule, Decay, charge
from iriai.sim.workload.log import LogJob

ROUNDING = 1e-6
"""Of a slice: times that are this close to one are it."""


class _Run:
    """What runs of a job on the machine."""

    __slots__ = ("job", "key", "read_s", "resources", "start_s")

    def __init__(self, key: Hashable, job: LogJob, cpus: int, start_s: float) -> None:
        self.key = key
        self.job = job
        self.resources = Resources(cpus)
        self.start_s = self.read_s = start_s
        """Until when it has been charged."""


class _Slices(NamedTuple):
    """Charges that a node makes at regular intervals, the last at `last_s`."""

    first_s: float
    each_s: float
    whole: int
    """How many there are after the first."""
    last_s: float

    def worth_s(self, half_life_s: float) -> float:
        """Return the one charge at `last_s` that equals all of them, decayed to then."""
        log_decay = -log(2.0) * SLICE_S / half_life_s
        decays = expm1(self.whole * log_decay)
        return self.first_s * (1.0 + decays) + self.each_s * (decays / expm1(log_decay))

    def by_bucket(self, bucket_s: float, began_wall_s: float) -> Iterator[tuple[float, float]]:
        """Yield one charge for each bucket of a window, with the time of its last slice."""
        left = self.whole + 1
        charge_s = self.first_s - self.each_s
        while left:
            at_s = self.last_s - (left - 1) * SLICE_S
            wall_s = began_wall_s + at_s
            end_s = (floor(wall_s / bucket_s) + 1) * bucket_s
            count = min(left, max(1, ceil((end_s - wall_s) / SLICE_S)))
            yield charge_s + count * self.each_s, at_s + (count - 1) * SLICE_S
            left -= count
            charge_s = 0.0


class SlicedCharges:
    """The ledger of a machine of a replay. Times are those of the log."""

    def __init__(
        self,
        machine: str,
        usage: UsageAccounts,
        rule: ChargeRule,
        fading: Decay,
        began_wall_s: float,
    ) -> None:
        """`began_wall_s` is the wall clock of the machine at second 0 of the log."""
        self._machine = machine
        self._usage = usage
        self._rule = rule
        self._began_wall_s = began_wall_s
        self._fading = fading
        self._ledger = UsageCounters(fading, ())
        self._running: dict[Hashable, _Run] = {}
        self._next_slice_s = inf
        """When the slice that runs is over; infinite while nothing does."""
        self._last_slice_s = -inf
        self._charged_s = -inf
        """The last slice that all that runs was charged for."""

    def turn(self, now_s: float) -> None:
        """Begin a turn: advance to the last slice that ended before now."""
        next_s = self._next_slice_s
        if next_s >= now_s:
            return
        if not self._running:
            self._next_slice_s = inf
            return
        more = ceil((now_s - next_s) / SLICE_S - ROUNDING) - 1
        self._last_slice_s = next_s + more * SLICE_S
        self._next_slice_s = self._last_slice_s + SLICE_S

    def began(self, key: Hashable, job: LogJob, cpus: int, now_s: float) -> None:
        """Start what runs of `job` here, which the usage accounts know as `key`."""
        self._running[key] = _Run(key, job, cpus, now_s)

    def ended(self, key: Hashable, now_s: float, *, is_first: bool) -> None:
        """End it and charge the rest; a job's run time is counted with the first of its seats."""
        run = self._running.pop(key)
        self._charge_slices(run)
        self._add(run, charge_of(run, now_s - run.read_s, self._rule), now_s)
        if is_first:
            self._ledger.ran(run.job.account, now_s - run.start_s, run.job.estimate_s)

    def unused(
        self, account: Account, resources: Resources, spent_s: float, factor: float, now_s: float
    ) -> None:
        """Charge an account for what is kept for it and nobody uses, as for a job that idles."""
        charge_s = charge(resources, spent_s, 0.0, self._rule) * factor
        if charge_s:
            self._ledger.add(account, charge_s, self._began_wall_s + now_s)

    def end_turn(self, now_s: float) -> None:
        """End a turn: end a slice that is due, and begin one if anything runs."""
        if self._next_slice_s == now_s:
            self._last_slice_s, self._next_slice_s = now_s, inf
        if self._next_slice_s == inf and self._running:
            self._next_slice_s = now_s + SLICE_S

    def publish(self) -> None:
        """Report all charges to the usage accounts, before a pass."""
        if self._charged_s < self._last_slice_s:
            self._charged_s = self._last_slice_s
            for run in self._running.values():
                if self._charge_slices(run):
                    whole_s = charge_of(run, run.read_s - run.start_s, self._rule)
                    self._usage.charged(run.key, whole_s)
        for row in self._ledger.drain_changed():
            self._usage.counted(self._machine, row, row.account)

    def _charge_slices(self, run: _Run) -> bool:
        """Charge a job for the slices that are over; return False if there are none."""
        last_s = self._last_slice_s
        open_s = last_s - run.read_s
        if open_s <= 0.0:
            return False
        whole = ceil(open_s / SLICE_S - ROUNDING) - 1
        """Slices in which it ran all the time; before them comes a part of one, or another."""
        first_s = charge_of(run, open_s - whole * SLICE_S, self._rule)
        slices = _Slices(first_s, charge_of(run, SLICE_S, self._rule), whole, last_s)
        run.read_s = last_s
        bucket_s = self._fading.bucket_s
        if not bucket_s:
            self._add(run, slices.worth_s(self._fading.half_life_s), last_s)
        else:
            for charge_s, at_s in slices.by_bucket(bucket_s, self._began_wall_s):
                self._add(run, charge_s, at_s)
        return True

    def _add(self, run: _Run, charge_s: float, at_s: float) -> None:
        if charge_s:
            self._ledger.add(run.job.account, charge_s, self._began_wall_s + at_s)


def charge_of(run: _Run, ran_s: float, rule: ChargeRule) -> float:
    """Return the charge of `ran_s` of a job that keeps all its cpus busy."""
    return charge(run.resources, ran_s, run.resources.cpus * ran_s, rule)
