"""The health of machines, by the ends of the tasks that ran there.

A machine on which tasks are lost at once is given none for a while (`MachineBackoff`). So is one on
which an account's tasks fail at once and succeed elsewhere: none of that account, and none at
all once tasks of two users failed so.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from iriai.broker.machines.machine_view import AccountReliability, MachineView
from iriai.broker.state.state import BrokerState
from iriai.model.backoff import pause_s
from iriai.model.ids import Account, AttemptId, JobId
from iriai.protocol.messages.scheduling import FailedAtOnce, Idle

FAILURES_MIN = 5
"""Fast failures in a row of one account on one machine, before anything is made of them."""
SURVIVED_S = 4.0
"""A task that has run so long did not fail at once: twice as long as `metering.FAILED_AT_ONCE_S`,
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


class _Young(NamedTuple):
    """A seat that began a moment ago."""

    machine: str
    began_s: float
    is_alone: bool
    """False: others of its attempt end it, when they end."""


@dataclass(slots=True)
class _Record:
    """The recent ends of one account's tasks, by machine."""

    young: dict[AttemptId, _Young] = field(default_factory=dict)
    """The running attempts that have not survived yet, the oldest first."""
    good: dict[str, tuple[JobId, float]] = field(default_factory=dict)
    """The last task that did not fail at once, and when it began, where none did since."""
    streaks: dict[str, FailureStreak] = field(default_factory=dict)

    def did_well(self, attempt: AttemptId, machine: str, began_s: float) -> None:
        """Note that a task ran on, or ended without failing at once."""
        self.good.pop(machine, None)
        self.good[machine] = (attempt.task.job, began_s)
        if len(self.good) > MACHINES_KEPT:
            del self.good[next(iter(self.good))]

    def is_stopped(self, attempt: AttemptId, now_s: float) -> bool:
        """Return whether a seat ended at once, and probably because another of its attempt did.

        That says nothing of its machine; it is forgotten.
        """
        young = self.young.get(attempt)
        if young is None or young.is_alone or now_s - young.began_s >= SURVIVED_S:
            return False
        del self.young[attempt]
        return True

    def survive(self, now_s: float) -> None:
        """Note that the attempts which have run for `SURVIVED_S` by now did not fail at once."""
        while self.young:
            attempt, (machine, began_s, _) = next(iter(self.young.items()))
            if now_s - began_s < SURVIVED_S:
                return
            del self.young[attempt]
            if machine not in self.streaks:
                self.did_well(attempt, machine, began_s)

    def streak_on(self, machine: str, began_s: float, now_s: float) -> FailureStreak:
        """Return the streak of a machine, which may begin now; forget streaks that are too old."""
        for name, old in list(self.streaks.items()):
            if now_s > max(old.last_s, old.until_s) + FORGOTTEN_S:
                del self.streaks[name]
        streak = self.streaks.setdefault(machine, FailureStreak(began_s))
        if len(self.streaks) > MACHINES_KEPT:
            del self.streaks[next(iter(self.streaks))]
        return streak

    def judge(self, streak: FailureStreak, now_s: float, *, is_doubted: bool) -> bool:
        """Return whether the account's tasks are kept off the machine, and note until when.

        `is_doubted`: another user's tasks fail on the machine and succeed elsewhere.
        """
        alike = [job == streak.job or at_s >= streak.since_s for job, at_s in self.good.values()]
        if sum(alike) >= len(self.streaks) or (is_doubted and len(self.streaks) == 1):
            streak.until_s = now_s + pause_s(streak.pauses, FIRST_S, PAUSE_MAX_S)
            streak.pauses += 1
            return True
        running = islice(self.young.values(), MACHINES_KEPT)
        if any(young.machine not in self.streaks for young in running):
            streak.until_s = now_s + FIRST_S  # by then more is known
            return True
        return False


class FailureAttribution:
    """Attributes the ends of tasks to machines or jobs. Times are those of the steady clock.

    What fails everywhere is evidence against no machine. So before a machine is blamed for fast
    failures in a row of an account, tasks of the same job, or of the same time, must succeed on as
    many machines as they fail on.
    """

    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self._quarantine: dict[str, MachineView] = {}
        """The machines whose back-off is not over."""
        self._reliability = AccountReliability()
        self._accounts: OrderedDict[Account, _Record] = OrderedDict()

    def began(
        self, account: Account, attempt: AttemptId, machine: str, now_s: float, *, is_alone: bool
    ) -> None:
        """Note that a seat begins; `is_alone`: it is the only one of its attempt."""
        if len(self._state.machines) > 1:  # else there is nothing to compare with
            record = self._record(account)
            record.survive(now_s)
            record.young[attempt] = _Young(machine, now_s, is_alone)

    def ended(self, view: MachineView, idle: Idle, attempt: AttemptId, now_s: float) -> None:
        """Note that a task ended, as `idle` reports; call it before the claim is released."""
        has_troubles = self._accounts or self._reliability.has_losses
        if not (has_troubles or idle.failed or idle.lost or len(self._state.machines) > 1):
            return  # nothing to compare with, and nothing to make up for
        account = self._state.usage.whose(attempt)
        if account is None:
            return
        known = self._accounts.get(account)
        if known is not None and (attempt in idle.refused or attempt in idle.lost or idle.whole):
            known.young.pop(attempt, None)
        if attempt in idle.refused or idle.whole:  # of a whole report it is not known how it ended
            return
        reliability, back_off, name = self._reliability, view.back_off, view.name
        failed = next((each for each in idle.failed if each.attempt == attempt), None)
        if failed is not None:
            self._failed_at_once(view, failed, account, now_s)
        elif attempt not in idle.lost:
            if known is not None and known.is_stopped(attempt, now_s):
                return
            reliability.did_well(account, name)
            back_off.did_well()
            record = self._record(account)
            streak = record.streaks.pop(name, None)
            young = record.young.pop(attempt, None)
            record.did_well(attempt, name, young.began_s if young is not None else now_s)
            if streak is not None and streak.pauses:
                self._state.exclusions.relent(name, account.user)
        elif reliability.is_evidence(account, name):
            job, is_proven = attempt.task.job, reliability.is_proven(account, name)
            if back_off.lost(job, account, now_s, is_proven=is_proven):
                self.quarantine(view)

    def quarantine(self, view: MachineView) -> None:
        """Start nothing on a machine until its back-off, which has begun, is over."""
        self._quarantine[view.name] = view

    def until_s(self) -> Iterable[float]:
        """Return the time at which each machine in quarantine is tried again."""
        ends_s = [view.back_off.until_s for view in self._quarantine.values()]
        return [end_s for end_s in ends_s if end_s is not None]

    def review(self, now_s: float) -> bool:
        """Release the machines whose back-off is over; return whether there were any."""
        over = [view for view in self._quarantine.values() if view.back_off.is_over(now_s)]
        for view in over:
            del self._quarantine[view.name]
            self._state.availability_changed(view)
        return bool(over)

    def forget(self, machine: str) -> None:
        """Forget a machine that is reported anew, or was dropped: it may have been repaired."""
        self._quarantine.pop(machine, None)
        for record in self._accounts.values():
            for attempt in [key for key, each in record.young.items() if each.machine == machine]:
                del record.young[attempt]
            record.streaks.pop(machine, None)
            record.good.pop(machine, None)

    def failing_on(self, machine: str) -> list[str]:
        """Return, in words, the users whose tasks fail at once there and not elsewhere."""
        return [
            streak.words(account)
            for account, record in self._accounts.items()
            if (streak := record.streaks.get(machine)) is not None and streak.pauses
        ]

    def _failed_at_once(
        self, view: MachineView, failed: FailedAtOnce, account: Account, now_s: float
    ) -> None:
        """Note a fast failure; blame the machine where the account's tasks succeed elsewhere."""
        record, name = self._record(account), view.name
        young = record.young.pop(failed.attempt, None)
        began_s = young.began_s if young is not None else now_s
        record.survive(now_s)
        record.good.pop(name, None)
        streak = record.streak_on(name, began_s, now_s)
        streak.count += 1
        streak.last_s, streak.job = now_s, failed.attempt.task.job
        streak.exit_code = failed.exit_code
        is_doubted = view.back_off.fails_others(account.user)
        is_kept_away = now_s < streak.until_s or (
            streak.count >= FAILURES_MIN and record.judge(streak, now_s, is_doubted=is_doubted)
        )
        if is_kept_away:
            words = streak.words(account)
            self._state.exclude(name, failed.attempt, account, words, streak.until_s)
            if streak.pauses and view.back_off.fails(account.user, now_s):
                self.quarantine(view)

    def _record(self, account: Account) -> _Record:
        record = self._accounts.setdefault(account, _Record())
        self._accounts.move_to_end(account)
        if len(self._accounts) > ACCOUNTS_KEPT:
            self._accounts.popitem(last=False)
        return record
