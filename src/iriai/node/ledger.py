"""What this machine has done for each account (design: the ledger; paper 000, section 5.1)."""

from __future__ import annotations

from collections.abc import Iterable

from iriai.model.account import Account
from iriai.model.records import LedgerRow
from iriai.policy.expectation import RunTimes
from iriai.policy.fairshare import DecayedUsage


class Ledger:
    """One decayed counter and one mean run time for each account."""

    def __init__(self, half_life_s: float, rows: Iterable[LedgerRow]) -> None:
        self._half_life_s = half_life_s
        self._usage: dict[Account, DecayedUsage] = {}
        self._advances: dict[Account, DecayedUsage] = {}
        """Of accounts that ever paid for urgency; in the epoch of their usage."""
        self._times: dict[Account, RunTimes] = {}
        self._changed: dict[Account, None] = {}
        for row in rows:
            self._usage[row.account] = DecayedUsage.restored(
                half_life_s, row.counter, row.epoch_wall_s
            )
            if row.advance:
                self._advances[row.account] = DecayedUsage.restored(
                    half_life_s, row.advance, row.epoch_wall_s
                )
            self._times[row.account] = RunTimes(row.runs, row.run_s)

    def add(self, account: Account, charge_s: float, wall_s: float, advance_s: float = 0.0) -> None:
        """Count a charge made now, of which urgency is `advance_s`."""
        usage = self._usage.get(account) or DecayedUsage(self._half_life_s)
        self._usage[account] = usage.charged(charge_s, wall_s)
        advance = self._advances.get(account)
        if advance_s or advance:
            advance = advance or DecayedUsage(self._half_life_s, usage.epoch)
            self._advances[account] = advance.charged(advance_s, wall_s)
        self._changed[account] = None

    def ran(self, account: Account, elapsed_s: float, limit_s: float | None = None) -> None:
        """Count an ended run, and the limit it had, towards the account's mean."""
        self._times[account] = self._times.get(account, RunTimes()).with_run(elapsed_s, limit_s)
        self._changed[account] = None

    def rows(self) -> tuple[LedgerRow, ...]:
        """Every account's row."""
        return tuple(self._row(account) for account in self._usage)

    def take_changed(self) -> tuple[LedgerRow, ...]:
        """The rows that changed since the last call."""
        rows = tuple(self._row(account) for account in self._changed if account in self._usage)
        self._changed.clear()
        return rows

    def _row(self, account: Account) -> LedgerRow:
        usage = self._usage[account]
        times = self._times.get(account, RunTimes())
        advance = self._advances.get(account)
        return LedgerRow(
            account,
            usage.counter,
            usage.epoch_wall_s,
            times.runs,
            times.run_s,
            advance.counter if advance else 0.0,
        )
