"""Monotonic invariants: values that must not fall, and promises that must not move.

One object checks one machine after each turn, also across restarts of its daemon.
"""

from __future__ import annotations

from typing import NamedTuple

from iriai.machine.core import Machine
from iriai.model.ids import Account
from iriai.model.instant import Instant
from iriai.model.records import LedgerRow
from iriai.model.resources import Resources

PROMISE_TOLERANCE_S = 1.0
"""The change of a promise above which it is sent again (`scheduling_pass.PROMISE_STEP_S`)."""


class _Promise(NamedTuple):
    """The start that a job was promised."""

    wall_s: float
    excused_s: float = 0.0
    """The time that the machine has been away since then."""
    asked: tuple[Resources, bool] | None = None
    """The resources, or a whole machine. An altered job gets a new promise."""


class MonotonicChecks:
    """Remembers earlier values; raises AssertionError if one moves the wrong way."""

    def __init__(self) -> None:
        self._rows: dict[Account, LedgerRow] = {}
        self._promises: dict[int, _Promise] = {}
        self._last_attempts: dict[tuple[int, int], int] = {}
        self._was_away = False
        self._looked_s = 0.0

    def check(self, machine: Machine, now: Instant) -> None:
        """Check a machine after a turn."""
        self._check_counters(machine)
        for number in self._check_attempts(machine):
            self._promises.pop(number, None)  # it was for one start, which is this one
        self._check_promises(machine, now)
        self._was_away = machine.node.unavailable() is not None
        self._looked_s = now.steady_s

    def _check_counters(self, machine: Machine) -> None:
        """Check (e): counters never fall."""
        for row in machine.node.ledger.rows():
            before = self._rows.get(row.account)
            self._rows[row.account] = row
            if before is None:
                continue
            assert row.runs >= before.runs, f"fewer runs of {row.account}"
            assert row.epoch_wall_s >= before.epoch_wall_s, f"an older epoch of {row.account}"
            if row.epoch_wall_s == before.epoch_wall_s:
                assert row.counter >= before.counter, f"less use of {row.account}"
            if row.bucket_s == before.bucket_s:
                self._check_buckets(before, row)

    def _check_buckets(self, before: LedgerRow, row: LedgerRow) -> None:
        """Check (e) under a window: no bucket falls, and buckets are dropped in order."""
        now = {each.number: each.charge_s for each in row.buckets}
        first = min(now, default=0)
        for number, charge_s, _ in before.buckets:
            assert number < first or now.get(number, 0.0) >= charge_s, f"less use of {row.account}"

    def _check_attempts(self, machine: Machine) -> list[int]:
        """Check that numbers of attempts only rise; return the jobs of new attempts."""
        jobs = []
        for attempt in machine.node.running():
            task = (attempt.number, attempt.index)
            last = self._last_attempts.get(task, 0)
            assert attempt.attempt >= last, f"{attempt} came after a later one"
            if attempt.attempt > last:
                self._last_attempts[task] = attempt.attempt
                jobs.append(attempt.number)
        return jobs

    def _check_promises(self, machine: Machine, now: Instant) -> None:
        """Check (f): a promised start is not moved back, nor withdrawn while the job waits.

        The only exception is a machine that is offline, for that time.
        """
        away_s = now.steady_s - self._looked_s if self._was_away else 0.0
        promises: dict[int, _Promise] = {}
        for number, job in machine.home.jobs.items():
            if not job.ready:
                continue
            promised_s, before = job.promised_wall_s, self._promises.get(number)
            asked = (job.spec.resources, job.spec.exclusive)
            if before is not None and before.asked != asked:
                before = None
            if before is not None:
                before = _Promise(before.wall_s, before.excused_s + away_s, asked)
                latest_s = before.wall_s + before.excused_s + PROMISE_TOLERANCE_S
                assert promised_s is not None, f"the promise of job {number} was withdrawn"
                assert promised_s <= latest_s, f"job {number} is put off"
            if before is not None and promised_s == before.wall_s:
                promises[number] = before
            elif promised_s is not None:
                promises[number] = _Promise(promised_s, asked=asked)
        self._promises = promises
