"""Detection of machines that fail an account's tasks at once though they succeed elsewhere.

A machine without the program, or with a broken library or file system, ends each task within a
moment, is free again, and would swallow the queue. But how a task ends is its user's doing as well:
so an account's tasks are compared with its own, of the same time or the same jobs, on other
machines. What fails everywhere says nothing of machines. Times are those of the steady clock.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from iriai.model.ids import Account, AttemptId, JobId

FAILURES_MIN = 3
"""So many in a row: one or two are accidents."""
WELL_MIN = 3
"""So many of its tasks must have done well elsewhere, before machines are compared."""
CHANCE_MAX = 1e-4
"""A row is the machine's fault if tasks that fail as rarely as elsewhere would make such a row less
often than that: five after ten that did well, fourteen where each second one fails."""
SURVIVED_S = 4.0
"""A task that has run so long did not fail at once, whatever becomes of it: twice as long as
`held_claim.FAILED_AT_ONCE_S`, since the news of a failure takes a while. Long tasks could not be
compared otherwise until they end."""
OUTLIVES_TIMES, OUTLIVES_MIN_S = 4.0, 0.5
"""One that has run for so many times as long as those that failed counts before: until it survives,
a machine may have swallowed a hundred. Should it fail at once, it counts as that."""
YOUNG_LOOKED_AT = 100
"""Of those, the oldest: enough to tell what is usual."""
SEE_AFTER, SEE_S = 5, 1.0
"""After so many in a row, while nothing like them has failed elsewhere and something runs there,
the next waits for a moment: by then more is known, and by then a machine of many places would have
swallowed everything."""
FIRST_S, LEAVE_MAX_S = 1.0, 120.0
"""How long an account's tasks are kept from the machine, doubled with each further failure. It may
be the account's own doing, by what it asks for: so it waits less long than `back_off.MAX_S`."""
ROW_FORGOTTEN_S = 60.0
"""After the last failure of a row, and where tasks are kept away after that: someone who tries a
script by hand makes no row for days."""
OUTCOMES_KEPT = 4
"""Of an account on one machine: machines are compared, and none may outweigh the others."""
MACHINES_KEPT = 100
"""Of an account, those where its tasks ended last: enough to tell what is usual."""
ACCOUNTS_KEPT = 1_000
"""Those of which something was heard last: the largest site."""
JOBS_KEPT = 16
"""Of a row: the jobs whose tasks elsewhere are compared, whenever they began."""
LOOK_AT_EACH = 8
"""Of a row that is longer than twice that, and was never held against its machine, only each so
many are looked at: where all fails everywhere, thousands a second may."""


class _Outcome(NamedTuple):
    attempt: AttemptId
    job: JobId
    began_s: float
    is_well: bool


class _Young(NamedTuple):
    machine: str
    began_s: float


@dataclass(slots=True)
class FailureStreak:
    """Tasks of an account that failed at once on one machine, and none did well between."""

    since_s: float
    """When the first of them began."""
    last_s: float
    count: int = 0
    exit_code: int | None = None
    """Of the last."""
    longest_s: float = 0.0
    """What one of them took, from its claim until the news of its end."""
    jobs: dict[JobId, None] = field(default_factory=dict)
    left_alone: int = 0
    """How often the account's tasks were kept away because of it."""
    until_s: float = 0.0
    """Until when they are."""

    @property
    def is_hopeless(self) -> bool:
        """Whether it is so long without a word against its machine that it is the tasks."""
        return not self.left_alone and self.count > 2 * LOOK_AT_EACH

    def words(self, account: Account) -> str:
        """What is the matter, for people."""
        code = "" if self.exit_code is None else f", the last with exit code {self.exit_code}"
        return (
            f"the last {self.count} tasks of {account} failed there within a moment{code},"
            " and not on other machines"
        )


class _Elsewhere(NamedTuple):
    """What became of tasks like those of a row, on other machines."""

    well: int
    failed: int
    young: int
    """Those that run, and not for long."""

    @property
    def is_promising(self) -> bool:
        """Whether nothing has failed there, and soon more is known."""
        return not self.failed and self.well + self.young > 0

    def speaks_against(self, row: FailureStreak, *, is_doubted: bool) -> bool:
        """Whether tasks do so well there that the row can hardly be chance."""
        if self.well < WELL_MIN:
            return is_doubted and not self.failed
        fails = (self.failed + 1) / (self.failed + self.well + 2)  # Laplace's rule of succession
        return fails**row.count <= CHANCE_MAX


@dataclass(slots=True)
class _Trial:
    """Of one account."""

    young: dict[AttemptId, _Young] = field(default_factory=dict)
    """What runs and has not survived yet, the oldest first."""
    outcomes: OrderedDict[str, deque[_Outcome]] = field(default_factory=OrderedDict)
    """By machine, that of which something was heard last at the end."""
    rows: dict[str, FailureStreak] = field(default_factory=dict)


class BlackholeDetector:
    """Detects machines on which an account's tasks fail at once though they succeed elsewhere."""

    def __init__(self) -> None:
        self._accounts: OrderedDict[Account, _Trial] = OrderedDict()

    def began(self, account: Account, attempt: AttemptId, machine: str, now_s: float) -> None:
        """A task of the account begins."""
        trial = self._of(account)
        self._survive(trial, now_s)
        trial.young[attempt] = _Young(machine, now_s)

    def ended(self, account: Account, attempt: AttemptId) -> None:
        """It ended, and that says nothing of its machine."""
        trial = self._accounts.get(account)
        if trial is not None:
            trial.young.pop(attempt, None)

    def did_well(self, account: Account, attempt: AttemptId, machine: str, now_s: float) -> bool:
        """It did not fail at once; whether that ends a row for which tasks were kept away."""
        trial = self._of(account)
        began = trial.young.pop(attempt, None)
        if began is not None:  # else it was counted when it had survived
            self._note(trial, machine, attempt, began.began_s, is_well=True)
        row = trial.rows.pop(machine, None)
        return row is not None and row.left_alone > 0

    def failed(
        self,
        account: Account,
        attempt: AttemptId,
        machine: str,
        exit_code: int | None,
        now_s: float,
        *,
        is_doubted: bool,
    ) -> FailureStreak | None:
        """It failed at once; the row, if the account's tasks are to be kept away until its end.

        `is_doubted`: another user's tasks fail on the machine and do well elsewhere, and nobody's
        have done well there since.
        """
        trial = self._of(account)
        began = trial.young.pop(attempt, _Young(machine, now_s))
        self._survive(trial, now_s)
        row = trial.rows.get(machine)
        if row is None or now_s > max(row.last_s, row.until_s) + ROW_FORGOTTEN_S:
            row = trial.rows[machine] = FailureStreak(began.began_s, now_s)
        self._note(trial, machine, attempt, began.began_s, is_well=False)
        row.count += 1
        row.last_s, row.exit_code = now_s, exit_code
        row.longest_s = max(row.longest_s, now_s - began.began_s)
        if len(row.jobs) < JOBS_KEPT:
            row.jobs[attempt.task.job] = None
        if now_s < row.until_s:
            return row
        if row.count < FAILURES_MIN or (row.is_hopeless and row.count % LOOK_AT_EACH):
            return None
        elsewhere = _elsewhere(trial, machine, row)
        if elsewhere.speaks_against(row, is_doubted=is_doubted):
            row.until_s = now_s + min(LEAVE_MAX_S, FIRST_S * 2.0 ** min(row.left_alone, 16))
            row.left_alone += 1
        elif row.count >= SEE_AFTER and elsewhere.is_promising:
            row.until_s = now_s + SEE_S
        else:
            return None
        return row

    def rows_of(self, machine: str) -> list[tuple[Account, FailureStreak]]:
        """For which the machine was left alone, and nothing has done well there since."""
        return [
            (account, row)
            for account, trial in self._accounts.items()
            if (row := trial.rows.get(machine)) is not None and row.left_alone
        ]

    def forget(self, machine: str) -> None:
        """It is known anew: it may have been mended."""
        for trial in self._accounts.values():
            gone = [attempt for attempt, each in trial.young.items() if each.machine == machine]
            for attempt in gone:
                del trial.young[attempt]
            trial.rows.pop(machine, None)
            trial.outcomes.pop(machine, None)

    # --- within ----------------------------------------------------------------------------------

    def _of(self, account: Account) -> _Trial:
        trial = self._accounts.get(account)
        if trial is None:
            trial = self._accounts[account] = _Trial()
            if len(self._accounts) > ACCOUNTS_KEPT:
                self._accounts.popitem(last=False)
        self._accounts.move_to_end(account)
        return trial

    @staticmethod
    def _survive(trial: _Trial, now_s: float) -> None:
        """What has run for long enough by now did well."""
        young = trial.young
        while young:
            attempt, (machine, began_s) = next(iter(young.items()))
            if now_s - began_s < SURVIVED_S:
                return
            del young[attempt]
            BlackholeDetector._note(trial, machine, attempt, began_s, is_well=True)

    @staticmethod
    def _note(
        trial: _Trial, machine: str, attempt: AttemptId, began_s: float, *, is_well: bool
    ) -> None:
        """An outcome; of a task that was slow to start and taken to survive, the other one."""
        known = trial.outcomes.setdefault(machine, deque(maxlen=OUTCOMES_KEPT))
        for each in [each for each in known if each.attempt == attempt]:
            known.remove(each)
        known.append(_Outcome(attempt, attempt.task.job, began_s, is_well))
        trial.outcomes.move_to_end(machine)
        if len(trial.outcomes) > MACHINES_KEPT:
            trial.outcomes.popitem(last=False)


def _elsewhere(trial: _Trial, machine: str, row: FailureStreak) -> _Elsewhere:
    is_mixed = len(row.jobs) >= FAILURES_MIN  # else it may be a script that fails everywhere

    def is_alike(job: JobId, began_s: float) -> bool:
        return job in row.jobs or (is_mixed and began_s >= row.since_s)

    alike = [
        each.is_well
        for other, outcomes in trial.outcomes.items()
        if other != machine
        for each in outcomes
        if is_alike(each.job, each.began_s)
    ]
    outlives_s = max(OUTLIVES_MIN_S, OUTLIVES_TIMES * row.longest_s)
    ages_s = [
        row.last_s - young.began_s
        for attempt, young in islice(trial.young.items(), YOUNG_LOOKED_AT)
        if young.machine != machine and is_alike(attempt.task.job, young.began_s)
    ]
    outlived = sum(age_s >= outlives_s for age_s in ages_s)
    well = sum(alike)
    return _Elsewhere(well + outlived, len(alike) - well, len(ages_s) - outlived)
