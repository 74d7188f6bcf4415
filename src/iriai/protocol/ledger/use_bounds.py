"""Bounds of the usage that a machine of its size can have counted, and who exceeds them.

Each machine has an allowance of charged seconds: at first what a machine of its size can have
charged that still counts (it may have counted before it joined, or before we heard of it), and more
with each second that passes. Rows that say more than is known take from it; those that would take
more than there is are refused whole (spec 006, section 6). So nobody's use grows by more than
machines can have done, whatever a member says.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from iriai.model.ad import MachineAd, attributes_of
from iriai.model.ids import Account
from iriai.model.instant import Instant
from iriai.model.records import LedgerRow
from iriai.model.resources import Resources
from iriai.policy.accounting.decay import ChargeRule, Counter, Decay
from iriai.policy.accounting.runtime_estimates import RECENT_RUNS

RATE_MAX = 20_000.0
"""Charged seconds that a machine may say it can charge in one: two thousand cpus of speed ten."""
TOLERANCE = 2.0
"""Of the rate: tasks may use more cpus than they claimed, and clocks run differently."""
SLACK_S = 3600.0
"""Of the machine's whole rate, beside what it can have done: clocks are off by as much
(`ledger.CLOCK_OFF_S_MAX`)."""
ADVANCE_FACTOR = 10.0
"""How many times its rate a machine may have charged for urgency, over all its time: urgency
multiplies a charge by up to a thousand, and few tasks have much of it."""
ADVANCE_SLACK_S = 86_400.0
"""The same as `SLACK_S`, for urgency."""
RUN_S_MAX = 366 * 86_400.0
"""Of one task: a year. How long an account's tasks are expected to take follows from it."""
ACCOUNTS_MAX = 10_000
"""Of one machine, as many as a ledger keeps; what others have counts as new each time."""
ROUNDING = 1e-6
"""Relative: halving and doubling rounds."""


@dataclass(slots=True)
class _Allowance:
    """Charged seconds that a machine may still report."""

    left_s: float = 0.0
    most_s: float = 0.0

    def refill(self, more_s: float, most_s: float) -> None:
        """Add `more_s` up to `most_s`; the first time, fill it."""
        self.left_s = min(most_s, self.left_s + more_s) if self.most_s else most_s
        self.most_s = most_s


class _Machine:
    __slots__ = ("advance", "at_s", "base", "counters")

    def __init__(self, at_s: float) -> None:
        self.base, self.advance = _Allowance(), _Allowance()
        self.at_s = at_s
        self.counters: dict[Account, Counter] = {}
        """The largest accepted counter of each account, whatever its incarnation."""


class UseBounds:
    """Checks counters against what a machine of its size can have counted."""

    def __init__(self, fading: Decay) -> None:
        self._fading = fading
        self._counting_s = fading.counting_s
        self._machines: dict[str, _Machine] = {}

    def excess(
        self,
        machine: str,
        rows: Iterable[LedgerRow],
        rate: float,
        now: Instant,
        rate_max: float = RATE_MAX,
    ) -> str:
        """Why these rows cannot be what the machine counted; empty: they are taken for known.

        `rate` is what it can charge in a second at most, as it says itself: up to `rate_max`.
        """
        rate = min(rate, rate_max) * TOLERANCE
        known = self._refilled(machine, rate, now)
        later: dict[Account, Counter] = {}
        base_s = advance_s = 0.0
        for row in rows:
            if row.run_s > RECENT_RUNS * RUN_S_MAX:
                return (
                    f"{row.account}: runs of {row.run_s:.0f} s; the limit is {RUN_S_MAX:.0f} each"
                )
            counter = self._fading.restored(row)
            before = later.get(row.account) or known.counters.get(row.account)
            more = counter if before is None else counter.beyond(before)
            urgent_s = more.advance_at(now.wall_s)
            advance_s += urgent_s
            base_s += max(0.0, more.at(now.wall_s) - urgent_s)
            later[row.account] = counter if before is None else before.merged(counter)
        for said_s, left_s, what in (
            (base_s, known.base.left_s, "use"),
            (advance_s, known.advance.left_s, "use for urgency"),
        ):
            if not said_s <= left_s * (1.0 + ROUNDING):
                return f"{said_s:.0f} s more {what} than was known; possible are {left_s:.0f} s"
        known.base.left_s -= base_s
        known.advance.left_s -= advance_s
        for account, counter in later.items():
            if account in known.counters or len(known.counters) < ACCOUNTS_MAX:
                known.counters[account] = counter
        return ""

    def know(self, machine: str, rows: Iterable[LedgerRow], now: Instant) -> None:
        """Record rows that were checked before."""
        known = self._machines.setdefault(machine, _Machine(now.steady_s))
        for row in rows:
            counter, before = self._fading.restored(row), known.counters.get(row.account)
            known.counters[row.account] = counter if before is None else before.merged(counter)

    def forget(self, machine: str) -> None:
        """Forget a machine."""
        self._machines.pop(machine, None)

    def _refilled(self, machine: str, rate: float, now: Instant) -> _Machine:
        """Return the state of a machine, its allowances refilled."""
        known = self._machines.setdefault(machine, _Machine(now.steady_s))
        more_s = max(0.0, now.steady_s - known.at_s) * rate
        known.at_s = now.steady_s
        known.base.refill(more_s, rate * (self._counting_s + SLACK_S))
        urgent = ADVANCE_FACTOR * rate
        known.advance.refill(ADVANCE_FACTOR * more_s, urgent * (self._counting_s + ADVANCE_SLACK_S))
        return known


def rate_of(rule: ChargeRule, capacity: Resources, speed: float, ad: MachineAd | None) -> float:
    """What a machine can charge in a second at most, without urgency.

    Tasks may use all its cpus, whatever it gives away.
    """
    detected = attributes_of(ad).get("DetectedCpus", 0) if ad is not None else 0
    cpus = max(capacity.cpus, detected if isinstance(detected, int) else 0)
    return rule.rate(msgspec.structs.replace(capacity, cpus=cpus)) * speed
