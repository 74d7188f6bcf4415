"""What the ends of tasks show about the machines that they ran on.

One on which they are lost at once is left alone (`machine_backoff`), and one on which an account's
tasks fail at once though they do well elsewhere: by that account, or by all once two users met it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

from iriai.broker.pool.machine_view import AccountReliability, MachineView
from iriai.broker.state.state import BrokerState
from iriai.model.ids import Account, AttemptId, JobId
from iriai.protocol.messages.scheduling import FailedAtOnce, Idle


class Quarantine:
    """Machines until their back-off is over. Times are those of the steady clock."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self._views: dict[str, MachineView] = {}

    def add(self, view: MachineView) -> None:
        """Add a machine whose back-off has begun."""
        self._views[view.name] = view

    def forget(self, machine: str) -> None:
        """Forget a machine that is gone, or known again."""
        self._views.pop(machine, None)

    def until_s(self) -> Iterator[float]:
        """Return when each machine is tried again."""
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


FAILURES_MIN = 5
"""Fast failures in a row of one account on one machine, before anything is made of them."""
SURVIVED_S = 4.0
"""A task that has run so long did not fail at once: twice as long as `held_claim.FAILED_AT_ONCE_S`,
since the news of a failure takes a while."""
FIRST_S, PAUSE_MAX_S = 1.0, 120.0
"""The time that an account's tasks are kept from the machine, doubled with each further failure."""
FORGOTTEN_S = 60.0
"""After the last failure of a row, and where tasks are kept away after that: someone who tries a
script by hand makes no row for days."""
MACHINES_KEPT, ACCOUNTS_KEPT = 100, 1_000
"""Of each account, and in all, those that were heard of last: enough to tell what is usual."""


@dataclass(slots=True)
class FailureStreak:
    """Tasks of an account that failed at once on one machine, and none did well between."""

    since_s: float
    """The start of the first of them."""
    last_s: float = 0.0
    job: JobId | None = None
    exit_code: int | None = None
    """Both of the last."""
    count: int = 0
    pauses: int = 0
    """The number of times that the account's tasks were kept away because of it."""
    until_s: float = 0.0
    """Until when they are."""

    def words(self, account: Account) -> str:
        """Describe the failures for people."""
        code = "" if self.exit_code is None else f", the last with exit code {self.exit_code}"
        return (
            f"the last {self.count} tasks of {account} failed there within a moment{code},"
            " and not on other machines"
        )


@dataclass(slots=True)
class _Record:
    """Of one account, by machine."""

    young: dict[AttemptId, tuple[str, float]] = field(default_factory=dict)
    """The running attempts that have not survived yet, the oldest first: machine and start."""
    good: dict[str, tuple[JobId, float]] = field(default_factory=dict)
    """The last task that did not fail at once, and when it began, where none did since."""
    streaks: dict[str, FailureStreak] = field(default_factory=dict)

    def did_well(self, attempt: AttemptId, machine: str, began_s: float) -> None:
        """A task did not fail at once."""
        self.good.pop(machine, None)
        self.good[machine] = (attempt.task.job, began_s)
        if len(self.good) > MACHINES_KEPT:
            del self.good[next(iter(self.good))]

    def survive(self, now_s: float) -> None:
        """What has run for long enough by now did well."""
        while self.young:
            attempt, (machine, began_s) = next(iter(self.young.items()))
            if now_s - began_s < SURVIVED_S:
                return
            del self.young[attempt]
            if machine not in self.streaks:
                self.did_well(attempt, machine, began_s)

    def judge(self, streak: FailureStreak, now_s: float, *, is_doubted: bool) -> bool:
        """Return whether the account's tasks are to be kept away for a while, which is entered."""
        alike = [job == streak.job or at_s >= streak.since_s for job, at_s in self.good.values()]
        if sum(alike) >= len(self.streaks) or (is_doubted and len(self.streaks) == 1):
            streak.until_s = now_s + min(PAUSE_MAX_S, FIRST_S * 2.0 ** min(streak.pauses, 16))
            streak.pauses += 1
            return True
        running = islice(self.young.values(), MACHINES_KEPT)
        if any(machine not in self.streaks for machine, _ in running):
            streak.until_s = now_s + FIRST_S  # by then more is known
            return True
        return False


class BlackholeDetector:
    """Fast failures in a row, by account and machine.

    What fails everywhere says nothing of machines: so an account's tasks of the same job, or of the
    same time, must do well on as many machines as they fail on. Times are of the steady clock.
    """

    def __init__(self) -> None:
        self._accounts: OrderedDict[Account, _Record] = OrderedDict()

    def began(self, account: Account, attempt: AttemptId, machine: str, now_s: float) -> None:
        """A task of the account begins."""
        record = self._of(account)
        record.survive(now_s)
        record.young[attempt] = (machine, now_s)

    def ended(self, account: Account, attempt: AttemptId) -> None:
        """It ended, and that says nothing of its machine."""
        record = self._accounts.get(account)
        if record is not None:
            record.young.pop(attempt, None)

    def did_well(self, account: Account, attempt: AttemptId, machine: str, now_s: float) -> bool:
        """It did not fail at once; whether that ends a row for which tasks were kept away."""
        record = self._of(account)
        streak = record.streaks.pop(machine, None)
        record.did_well(attempt, machine, record.young.pop(attempt, (machine, now_s))[1])
        return streak is not None and streak.pauses > 0

    def failed(
        self,
        account: Account,
        failed: FailedAtOnce,
        machine: str,
        now_s: float,
        *,
        is_doubted: bool,
    ) -> FailureStreak | None:
        """It failed at once; the row, if the account's tasks are to be kept away until its end.

        `is_doubted`: another user's tasks fail on the machine and do well elsewhere.
        """
        record = self._of(account)
        _, began_s = record.young.pop(failed.attempt, (machine, now_s))
        record.survive(now_s)
        record.good.pop(machine, None)
        streaks = record.streaks
        for name, old in list(streaks.items()):
            if now_s > max(old.last_s, old.until_s) + FORGOTTEN_S:
                del streaks[name]
        streak = streaks.setdefault(machine, FailureStreak(began_s))
        if len(streaks) > MACHINES_KEPT:
            del streaks[next(iter(streaks))]
        streak.count += 1
        streak.last_s, streak.job, streak.exit_code = (
            now_s,
            failed.attempt.task.job,
            failed.exit_code,
        )
        is_kept_away = now_s < streak.until_s or (
            streak.count >= FAILURES_MIN and record.judge(streak, now_s, is_doubted=is_doubted)
        )
        return streak if is_kept_away else None

    def streaks_on(self, machine: str) -> list[tuple[Account, FailureStreak]]:
        """Those for which the machine was left alone, and nothing has done well there since."""
        return [
            (account, streak)
            for account, record in self._accounts.items()
            if (streak := record.streaks.get(machine)) is not None and streak.pauses
        ]

    def forget(self, machine: str) -> None:
        """Forget a machine that is known again: it may have been mended."""
        for record in self._accounts.values():
            for attempt in [each for each, at in record.young.items() if at[0] == machine]:
                del record.young[attempt]
            record.streaks.pop(machine, None)
            record.good.pop(machine, None)

    def _of(self, account: Account) -> _Record:
        record = self._accounts.setdefault(account, _Record())
        self._accounts.move_to_end(account)
        if len(self._accounts) > ACCOUNTS_KEPT:
            self._accounts.popitem(last=False)
        return record


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
        account = self._state.usage.whose(attempt)
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
        """Forget a machine that is known again, or gone for good."""
        self._trials.forget(machine)

    def failing_on(self, machine: str) -> list[str]:
        """Return, in words, the users whose tasks fail at once there and not elsewhere."""
        return [row.words(account) for account, row in self._trials.streaks_on(machine)]

    def _failed_at_once(
        self, view: MachineView, failed: FailedAtOnce, account: Account, now_s: float
    ) -> None:
        """Where the account's tasks do well elsewhere it is the machine."""
        is_doubted = view.back_off.fails_others(account.user)
        row = self._trials.failed(account, failed, view.name, now_s, is_doubted=is_doubted)
        if row is None:
            return
        words = row.words(account)
        self._state.exclude(view.name, failed.attempt, account, words, row.until_s)
        if row.pauses and view.back_off.fails(account.user, now_s):
            self._left_alone.add(view)
