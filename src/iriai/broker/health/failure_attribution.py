"""What the ends of tasks show about the machines that they ran on.

One on which they are lost at once is left alone (`machine_backoff`), and one on which an account's
tasks fail at once though they do well elsewhere, by that account or by all (`blackhole_detection`).
"""

from __future__ import annotations

from collections.abc import Iterator

from iriai.broker.health.blackhole_detection import BlackholeDetector
from iriai.broker.pool.machine_backoff import AccountReliability
from iriai.broker.pool.machine_view import MachineView
from iriai.broker.state.state import BrokerState
from iriai.model.ids import Account, AttemptId
from iriai.protocol.messages.scheduling import FailedAtOnce, Idle


class Quarantine:
    """Each until its back-off is over. Times are those of the steady clock."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self._views: dict[str, MachineView] = {}

    def add(self, view: MachineView) -> None:
        """Its back-off has begun."""
        self._views[view.name] = view

    def forget(self, machine: str) -> None:
        """It is gone, or known anew."""
        self._views.pop(machine, None)

    def until_s(self) -> Iterator[float]:
        """When each of them is tried again."""
        for view in self._views.values():
            if view.back_off.until_s is not None:
                yield view.back_off.until_s

    def review(self, now_s: float) -> bool:
        """Those whose time is over take part again; whether there were any."""
        over = [view for view in self._views.values() if view.back_off.is_over(now_s)]
        for view in over:
            del self._views[view.name]
            self._state.availability_changed(view)
        return bool(over)


class FailureAttribution:
    """Attributes the ends of tasks to machines or jobs. Times are those of the steady clock."""

    def __init__(self, state: BrokerState, left_alone: Quarantine) -> None:
        """Machines that all are to leave alone are entered in `left_alone`."""
        self._state = state
        self._left_alone = left_alone
        self._credit = AccountReliability()
        self._trials = BlackholeDetector()

    def began(self, account: Account, attempt: AttemptId, machine: str, now_s: float) -> None:
        """A task begins."""
        if len(self._state.machines) > 1:  # else there is nothing to compare with
            self._trials.began(account, attempt, machine, now_s)

    def ended(self, view: MachineView, idle: Idle, attempt: AttemptId, now_s: float) -> None:
        """A task has ended, as `idle` says; to be told before its claim is given up."""
        account = self._state.standings.whose(attempt)
        if account is None:
            return
        if attempt in idle.refused or attempt in idle.lost or idle.whole:
            self._trials.ended(account, attempt)
        if attempt in idle.refused or idle.whole:  # of a whole report it is not known how it ended
            return
        credit, back_off, name = self._credit, view.back_off, view.name
        failed = next((each for each in idle.failed if each.attempt == attempt), None)
        if failed is not None:
            self._failed_at_once(view, failed, account, now_s)
        elif attempt not in idle.lost:
            credit.did_well(account, name)
            back_off.did_well()
            if self._trials.did_well(account, attempt, name, now_s):
                self._state.exclusions.relent(name, account.user)
        elif credit.is_evidence(account, name):
            job, is_proven = attempt.task.job, credit.is_proven(account, name)
            if back_off.lost(job, account, now_s, is_proven=is_proven):
                self._left_alone.add(view)

    def forget(self, machine: str) -> None:
        """It is known anew, or gone for good."""
        self._trials.forget(machine)

    def failing_on(self, machine: str) -> list[str]:
        """Whose tasks fail at once there and not elsewhere, in words."""
        return [row.words(account) for account, row in self._trials.rows_of(machine)]

    def _failed_at_once(
        self, view: MachineView, failed: FailedAtOnce, account: Account, now_s: float
    ) -> None:
        """Where the account's tasks do well elsewhere it is the machine."""
        attempt, name = failed.attempt, view.name
        is_doubted = view.back_off.fails_others(account.user)
        row = self._trials.failed(
            account, attempt, name, failed.exit_code, now_s, is_doubted=is_doubted
        )
        if row is None:
            return
        self._state.keep_away(name, attempt, account, row.words(account), row.until_s)
        if row.left_alone and view.back_off.fails(account.user, now_s):
            self._left_alone.add(view)
