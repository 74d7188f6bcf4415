"""Invariants that only the past can break: what must not fall, and what must not move.

One watch looks at one machine after each turn, through restarts of its daemon, which it must not
notice.
"""

from __future__ import annotations

from iriai.home.job import JobState
from iriai.machine.core import Machine
from iriai.model.account import Account
from iriai.model.ids import AttemptId
from iriai.model.records import LedgerRow

PROMISE_TOLERANCE_S = 1.0
"""A promise is told again only when it changes by more (`broker.passes.PROMISE_STEP_S`)."""

_Promised = tuple[int, int, int]
"""Job, index and next attempt of the task that a promise is about."""


class Watch:
    """Remembers what it saw; each method raises AssertionError where that is broken."""

    def __init__(self) -> None:
        self._rows: dict[Account, LedgerRow] = {}
        self._promises: dict[_Promised, float] = {}
        self._last_attempts: dict[tuple[int, int], int] = {}

    def look(self, machine: Machine) -> None:
        """After a turn."""
        self._look_at_counters(machine)
        self._look_at_promises(machine)
        self._look_at_attempts(machine)

    def _look_at_counters(self, machine: Machine) -> None:
        """(e): counters never fall."""
        for row in machine.node.ledger.rows():
            before = self._rows.get(row.account)
            self._rows[row.account] = row
            if before is None:
                continue
            assert row.runs >= before.runs, f"fewer runs of {row.account}"
            assert row.epoch_wall_s >= before.epoch_wall_s, f"an older epoch of {row.account}"
            if row.epoch_wall_s == before.epoch_wall_s:
                assert row.counter >= before.counter, f"less use of {row.account}"

    def _look_at_promises(self, machine: Machine) -> None:
        """(f): a promised start is not moved back, nor withdrawn while the task waits."""
        promises: dict[_Promised, float] = {}
        if machine.node.unavailable() is not None:  # lost for now: the only excuse
            self._promises = promises
            return
        for number, job in machine.home.jobs.items():
            if not job.ready:
                continue
            task = _first(number, job)
            before, promised = self._promises.get(task), job.promised_wall_s
            if before is not None:
                assert promised is not None, f"the promise of job {number} was withdrawn"
                assert promised <= before + PROMISE_TOLERANCE_S, f"job {number} is put off"
            if promised is not None:
                promises[task] = promised if before is None else min(promised, before)
        self._promises = promises

    def _look_at_attempts(self, machine: Machine) -> None:
        """Numbers of attempts only rise: none is used twice."""
        last = self._last_attempts
        for attempt in machine.node.running():
            self._see(attempt, last)

    def _see(self, attempt: AttemptId, last: dict[tuple[int, int], int]) -> None:
        task = (attempt.number, attempt.index)
        assert attempt.attempt >= last.get(task, 1), f"{attempt} came after a later one"
        last[task] = attempt.attempt


def _first(number: int, job: JobState) -> _Promised:
    index = job.first_waiting()
    return (number, index, job.next_attempt(index))
