"""What attempts cost on this machine, counted into its ledger slice by slice."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from iriai.model.account import Account
from iriai.model.charge_factors import total_s, with_stretch
from iriai.model.instant import Instant
from iriai.model.records import LedgerRow
from iriai.node.held_claim import HeldClaim
from iriai.policy.accounting.decay import ChargeRule, Counter, Decay, charge
from iriai.policy.accounting.offpeak import OffpeakHours
from iriai.policy.accounting.runtime_estimates import NO_RUNS, RunTimes
from iriai.protocol.messages.scheduling import Charging


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


SLICE_S = 60.0
"""Running tasks are charged each slice, at their ends, and where off-peak begins or ends. A draw
counts what they are expected to cost from their start, so slices tell it only of those that run
longer than was expected; shorter ones would wake every machine for nothing (docs/adr/0073)."""


class Meter:
    """Charges claims to their accounts."""

    def __init__(self, rule: ChargeRule, speed: float, ledger: UsageCounters) -> None:
        self._rule = rule
        self._speed = speed
        self._ledger = ledger
        self._quiet = OffpeakHours()

    def set_offpeak(self, is_offpeak: bool, now: Instant) -> bool:
        """What the broker says of the hour; whether it is another than before."""
        was_offpeak = self._quiet.is_quiet(now.steady_s)
        self._quiet.set_published(is_offpeak, now.steady_s)
        return was_offpeak is not is_offpeak

    @property
    def charging(self) -> Charging:
        """What use costs here, as a broker is told."""
        return msgspec.convert(self._rule, Charging, from_attributes=True)

    def charge_by(self, told: Charging, _now: Instant) -> None:
        """From now on use costs what the cluster says.

        What a running attempt was charged stays; the rest is what its whole run costs now, less
        that.
        """
        self._rule = ChargeRule.of(told)

    def started(self, held: HeldClaim) -> None:
        """The attempt's process runs: off-peak time before its start does not count."""
        assert held.started_steady_s is not None
        held.quiet_mark_s = self._quiet.so_far_s(held.started_steady_s)

    def read(self, held: HeldClaim, ran_s: float, cpu_s: float, now: Instant) -> None:
        """The attempt has run so long and used so much in all: count what was not counted yet.

        What was used since the last reading is off-peak in the part of the time that was.
        """
        whole_s = charge(
            held.claim.resources,
            ran_s,
            cpu_s,
            self._rule,
            speed=self._speed,
            urgency=held.claim.urgency,
        )
        quiet_part = self._quiet_part(held, ran_s, now)
        more_s = max(0.0, whole_s - held.metered_s)
        held.metered_s += more_s
        more_s *= 1.0 - quiet_part * (1.0 - self._rule.offpeak_factor)
        if more_s:
            held.charged_s += more_s
            advance_s = more_s * (1.0 - 1.0 / held.claim.urgency)
            self._ledger.add(held.claim.account, more_s, now.wall_s, advance_s)

    def _quiet_part(self, held: HeldClaim, ran_s: float, now: Instant) -> float:
        """How much of the stretch since the last reading was off-peak, 0 to 1; it is noted down."""
        so_far_s = self._quiet.so_far_s(now.steady_s)
        stretch_s = max(0.0, ran_s - total_s(held.factors))
        quiet_s = min(stretch_s, max(0.0, so_far_s - held.quiet_mark_s))
        held.quiet_mark_s = so_far_s
        if stretch_s <= 0.0:
            return 1.0 if self._quiet.is_quiet(now.steady_s) else 0.0
        parts = [(1.0, stretch_s - quiet_s), (self._rule.offpeak_factor, quiet_s)]
        if held.factors and held.factors[-1][0] != 1.0:
            parts.reverse()  # what went on comes before what began
        for factor, seconds in parts:
            held.factors = with_stretch(held.factors, factor, seconds)
        return quiet_s / stretch_s
