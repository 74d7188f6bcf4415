"""What this machine has done for each account (design: the ledger; paper 000, section 5.1)."""

from __future__ import annotations

from collections.abc import Iterable

from iriai.model.account import Account
from iriai.model.records import LedgerRow
from iriai.policy.accounting.decay import Counter, Decay
from iriai.policy.accounting.runtime_estimates import NO_RUNS, RunTimes


class UsageCounters:
    """One counter of use and one mean run time for each account."""

    def __init__(self, fading: Decay, rows: Iterable[LedgerRow]) -> None:
        self._fading = fading
        self._counters: dict[Account, Counter] = {}
        self._times: dict[Account, RunTimes] = {}
        self._changed: dict[Account, None] = {}
        for row in rows:
            self._counters[row.account] = fading.restored(row)
            self._times[row.account] = RunTimes(row.runs, row.run_s)

    def add(self, account: Account, charge_s: float, wall_s: float, advance_s: float = 0.0) -> None:
        """Count a charge made now, of which urgency is `advance_s`."""
        counter = self._counters.get(account) or self._fading.counter()
        self._counters[account] = counter.charged(charge_s, advance_s, wall_s)
        self._changed[account] = None

    def ran(self, account: Account, elapsed_s: float, limit_s: float | None = None) -> None:
        """Count an ended run, and the limit it had, towards the account's mean."""
        self._times[account] = self._times.get(account, RunTimes()).with_run(elapsed_s, limit_s)
        self._changed[account] = None

    def rows(self) -> tuple[LedgerRow, ...]:
        """Every account's row."""
        return tuple(self._row(account) for account in self._counters)

    def drain_changed(self) -> tuple[LedgerRow, ...]:
        """The rows that changed since the last call."""
        if not self._changed:
            return ()
        rows = tuple(self._row(account) for account in self._changed if account in self._counters)
        self._changed.clear()
        return rows

    def _row(self, account: Account) -> LedgerRow:
        times = self._times.get(account, NO_RUNS)
        return self._counters[account].row(account, times)
