"""Usage of accounts as a draw counts it: past charges, and expected ones of running tasks."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from iriai.config.sections import Even, OrderSection
from iriai.model.ids import Account, AttemptId
from iriai.model.records import LedgerRow
from iriai.model.resources import Resources
from iriai.policy.accounting.decay import ChargeRule, Counter, Decay, UseSum
from iriai.policy.accounting.runtime_estimates import (
    EARLY_RUNS,
    NO_RUNS,
    RunSums,
    RunTimes,
    expected_charge,
    mean_run_s,
    provisional_charge,
)
from iriai.policy.draw.order import evened_s

if TYPE_CHECKING:
    from iriai.policy.accounting.refunds import ReturnedCharges

_DEFAULTS = OrderSection()

RATES_KEPT = 4096
"""Amounts of resources whose rate of charge is remembered."""
ROUNDING_S = 1e-3
"""The error of sums of provisional charges: they are added to and taken from for days."""


class _CounterKey(NamedTuple):
    """Of a machine, under the account that it was reported for."""

    machine: str
    account: Account


class _Run(msgspec.Struct):
    """A claim, or a match that will become one."""

    account: Account
    cpus: int
    expected_s: float
    remaining_s: float
    queue: int = 0
    """The queue that it is in."""
    factor: float = 1.0
    """By which its charges are multiplied: urgency and speed."""
    rate: float = 0.0
    """What it is charged in a second now, where that is evened; else 0."""


@dataclass(slots=True)
class _Standing:
    """What one account used, and what it runs."""

    settled: UseSum[_CounterKey]
    times: dict[_CounterKey, RunTimes] = field(default_factory=dict)
    advances: dict[_CounterKey, Counter] = field(default_factory=dict)
    """Only counters with a part that was paid for urgency."""
    returned: ReturnedCharges[_CounterKey] | None = None
    """What was returned of its charges; None: nothing."""
    sums: RunSums = field(default_factory=RunSums)
    mean_s: float = 0.0
    """Mean run time to expect, computed with `mean_of`."""
    mean_of: RunSums | None = None
    """The sums of all accounts as of which `mean_s` is."""
    running_cpus: int = 0
    provisional_s: float = 0.0
    rate: float = 0.0
    """What its tasks are charged in a second now, where that is evened."""


class UsageAccounts:
    """Usage of every account, from every machine's counters."""

    def __init__(
        self,
        fading: Decay,
        rule: ChargeRule,
        even: Even = "total",
        refund_max_s: float = _DEFAULTS.refund_max_s,
    ) -> None:
        """`even` is what draws even; at most `refund_max_s` are returned to an account a day."""
        self._fading = fading
        self._refund_max_s = refund_max_s
        self._even: Even = even
        self.evens_rate = even == "rate"
        self.in_draw_s = self._rate_s if self.evens_rate else self.usage_s
        """What counts of an account in a draw at a moment: what it has used, or what it uses."""
        self._rate = lru_cache(RATES_KEPT)(rule.rate)
        self._sums = RunSums()
        self._accounts: dict[Account, _Standing] = {}
        self._runs: dict[Hashable, _Run] = {}
        self._changed: dict[Account, None] = {}

    def __iter__(self) -> Iterator[Account]:
        return iter(self._accounts)

    @property
    def mean_s(self) -> float:
        """Mean run time to expect of an account of which nothing is known."""
        return mean_run_s(RunSums(), self._sums)

    def drain_changed(self) -> list[Account]:
        """Accounts whose usage or run times changed since they were last taken."""
        if not self._changed:
            return []
        changed = list(self._changed)
        self._changed.clear()
        return changed

    def counted(self, machine: str, row: LedgerRow, account: Account) -> None:
        """A machine's counter, which counts for `account`; of two copies the later one stays."""
        standing = self._of(account)
        self._changed[account] = None
        counter = _CounterKey(machine, row.account)
        standing.settled.merge(counter, row)
        if row.advance or any(bucket.advance_s for bucket in row.buckets):
            standing.advances[counter] = self._fading.restored(row)
        if row.refunds:
            self._return(standing, counter, row)
        old = standing.times.get(counter, NO_RUNS)
        if (row.runs, row.run_s) == old:  # most rows only say that time went by
            return
        times = standing.times[counter] = old.merged(RunTimes(row.runs, row.run_s))
        standing.sums = standing.sums.replaced(old, times)
        self._sums = self._sums.replaced(old, times)

    def _return(self, standing: _Standing, counter: _CounterKey, row: LedgerRow) -> None:
        if standing.returned is None:  # machines without owners need none of this
            from iriai.policy.accounting.refunds import ReturnedCharges

            standing.returned = ReturnedCharges()
        standing.returned.merge(counter, row.refunds)

    def forget(self, machine: str, counted_for: Account, account: Account) -> None:
        """Drop what a machine counted for `counted_for`, which counts for `account`."""
        standing = self._of(account)
        self._changed[account] = None
        counter = _CounterKey(machine, counted_for)
        standing.settled.drop(counter)
        standing.advances.pop(counter, None)
        if standing.returned is not None:
            standing.returned.drop(counter)
        times = standing.times.pop(counter, NO_RUNS)
        standing.sums = standing.sums.replaced(times, NO_RUNS)
        self._sums = self._sums.replaced(times, NO_RUNS)

    def began(
        self,
        key: Hashable,
        account: Account,
        resources: Resources,
        limit_s: float | None,
        urgency: float,
        accrued_s: float = 0.0,
        *,
        speed: float,
        queue: int = 0,
    ) -> None:
        """A task was matched or runs: from now on it counts provisionally.

        `speed` is that of its machine: charges are multiplied by it.
        """
        standing = self._of(account)
        self._changed[account] = None
        expected_s = self.expected_s(account, resources, limit_s) * urgency * speed
        remaining_s = provisional_charge(expected_s, accrued_s)
        run = _Run(account, resources.cpus, expected_s, remaining_s, queue)
        self._runs[key] = run
        standing.running_cpus += resources.cpus
        standing.provisional_s += remaining_s
        if self.evens_rate:
            run.factor = urgency * speed
            run.rate = self._rate(resources) * run.factor
            standing.rate += run.rate

    def uses(self, key: Hashable, resources: Resources) -> None:
        """Note what a running task is charged for now: nothing while its machine suspends it."""
        run = self._runs.get(key)
        if run is not None and self.evens_rate:
            rate = self._rate(resources) * run.factor
            self._accounts[run.account].rate += rate - run.rate
            run.rate = rate
            self._changed[run.account] = None

    def pass_on(self, key: Hashable, to: Hashable) -> None:
        """A match became a claim, which counts for as much."""
        self._runs[to] = self._runs.pop(key)

    def moved(self, key: Hashable, queue: int) -> None:
        """Note that a running task goes on in another queue."""
        run = self._runs.get(key)
        if run is not None:
            run.queue = queue

    def by_queue(self) -> dict[int, int]:
        """Return how many tasks run or were matched, by queue; a parallel match counts by seats."""
        tasks = {
            key.seat(0) if isinstance(key, AttemptId) else key: run.queue
            for key, run in self._runs.items()
        }
        counts: dict[int, int] = {}
        for queue in tasks.values():
            counts[queue] = counts.get(queue, 0) + 1
        return counts

    def charged(self, key: Hashable, charge_s: float) -> None:
        """Note the charge of a running task so far."""
        run = self._runs.get(key)
        if run is not None:
            self._changed[run.account] = None
            remaining_s = provisional_charge(run.expected_s, charge_s)
            self._accounts[run.account].provisional_s += remaining_s - run.remaining_s
            run.remaining_s = remaining_s

    def whose(self, key: Hashable) -> Account | None:
        """The account of a task that runs or was matched; None where there is none."""
        run = self._runs.get(key)
        return None if run is None else run.account

    def place_of(self, key: Hashable) -> tuple[Account | None, int]:
        """Return the account of such a task, and the number of its queue."""
        run = self._runs.get(key)
        return (None, 0) if run is None else (run.account, run.queue)

    def ended(self, key: Hashable) -> Account | None:
        """A task ended, or a match came to nothing; whose it was, None where there is none."""
        run = self._runs.pop(key, None)
        if run is None:
            return None
        self._changed[run.account] = None
        standing = self._accounts[run.account]
        standing.running_cpus -= run.cpus
        standing.provisional_s -= run.remaining_s
        if run.rate:
            standing.rate -= run.rate
        if not standing.running_cpus:
            standing.provisional_s = standing.rate = 0.0  # what rounding left
        return run.account

    def usage_s(self, account: Account, wall_s: float) -> float:
        """Return decayed charges of the account on all machines, and its provisional charges.

        What was returned of the charges is not in them.
        """
        standing = self._accounts.get(account)
        if standing is None:
            return 0.0
        if standing.returned is None:
            return standing.settled.at(wall_s) + standing.provisional_s
        left_s = standing.settled.at(wall_s) - self.returned_s(account, wall_s)
        return max(0.0, left_s) + standing.provisional_s

    def is_charged_since(self, account: Account, wall_s: float) -> bool:
        """Return whether a machine charged the account since then, or not long before."""
        standing = self._accounts.get(account)
        return standing is not None and standing.settled.is_charged_since(wall_s)

    def returned_s(self, account: Account, wall_s: float) -> float:
        """Return what is left of what was returned of the account's charges, on all machines."""
        standing = self._accounts.get(account)
        if standing is None or standing.returned is None:
            return 0.0
        return standing.returned.at(wall_s, self._refund_max_s, self._fading)

    def _rate_s(self, account: Account, _wall_s: float) -> float:
        return evened_s(self._even, 0.0, max(0.0, self.rate(account)))

    def rate(self, account: Account) -> float:
        """Return what the account's tasks are charged in a second now; 0 unless that is evened."""
        standing = self._accounts.get(account)
        return standing.rate if standing else 0.0

    def start_adds_s(self, resources: Resources, charge_s: float, urgency: float) -> float:
        """Return by how much `in_draw_s` grows with a start that is expected to cost `charge_s`."""
        return evened_s(self._even, charge_s, self._rate(resources)) * urgency

    def advance_s(self, account: Account, wall_s: float) -> float:
        """Return the part of the account's usage that was paid for urgency, on all machines."""
        standing = self._accounts.get(account)
        advances = standing.advances.values() if standing else ()
        return sum(each.advance_at(wall_s) for each in advances)

    def expected_s(self, account: Account, resources: Resources, limit_s: float | None) -> float:
        """Return the expected charge of a task of the account, without its urgency."""
        standing, sums = self._accounts.get(account), self._sums
        if standing is None:
            mean_s = mean_run_s(RunSums(), sums)
        else:
            if standing.mean_of is not sums:  # they are replaced whenever those of an account are
                standing.mean_s, standing.mean_of = mean_run_s(standing.sums, sums), sums
            mean_s = standing.mean_s
        return expected_charge(self._rate(resources), limit_s, mean_s)

    def usual_s(self, account: Account) -> float | None:
        """Return how long the account's tasks took lately; None: too few have ended."""
        standing = self._accounts.get(account)
        sums = standing.sums if standing else RunSums()
        return sums.recent_s / sums.recent_runs if sums.recent_runs >= EARLY_RUNS else None

    def expected_left_s(self, key: Hashable) -> float:
        """Return how much longer a running task should run, at speed 1; 0: it has run longer."""
        run = self._runs.get(key)
        return run.remaining_s / max(1, run.cpus) if run else 0.0

    def running_cpus(self, account: Account) -> int:
        """Cpus of the account's tasks that run or were matched."""
        standing = self._accounts.get(account)
        return standing.running_cpus if standing else 0

    def check(self, keys: Collection[Hashable]) -> None:
        """Raise where what counts provisionally is not what `keys` name, the claims and matches."""
        assert len(keys) == len(self._runs)
        cpus: dict[Account, int] = {}
        remaining_s: dict[Account, float] = {}
        rates: dict[Account, float] = {}
        for key in keys:
            run = self._runs[key]
            cpus[run.account] = cpus.get(run.account, 0) + run.cpus
            remaining_s[run.account] = remaining_s.get(run.account, 0.0) + run.remaining_s
            rates[run.account] = rates.get(run.account, 0.0) + run.rate
        for account, standing in self._accounts.items():
            assert standing.running_cpus == cpus.get(account, 0), f"cpus of {account}"
            difference_s = standing.provisional_s - remaining_s.get(account, 0.0)
            assert abs(difference_s) <= ROUNDING_S, f"{account}: {difference_s} s too much"
            more = standing.rate - rates.get(account, 0.0)
            assert abs(more) <= ROUNDING_S, f"{account}: {more} s a second too much"

    def _of(self, account: Account) -> _Standing:
        standing = self._accounts.get(account)
        if standing is None:
            standing = self._accounts[account] = _Standing(self._fading.sum(_CounterKey))
        return standing
