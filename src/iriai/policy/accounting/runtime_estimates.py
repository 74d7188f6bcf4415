"""Expected charge of a task before it has ended.

A draw weighs an account by what its next task is expected to cost, and counts as much as used until
the charges come. The guess is the task's rate of charge times the smaller of its time limit and its
account's mean run time.

A draw that divides by the expected cost makes an account wait for its turns as long as it is
expected to use them. It gets what it is entitled to if, over many tasks, expectations add up to
what the tasks really took. So a mean is kept over recent runs, each entering with the same weight
in the end, and a limit that shortened an expectation leaves the mean as it was (`with_run`).
Compensation tickets are the same idea with a memory of one run (Waldspurger and Weihl: Lottery
Scheduling, OSDI 1994, section 3.4).
"""

from __future__ import annotations

from typing import NamedTuple

RUN_TO_BEGIN_WITH_S = 600.0
"""Expected where no run of anybody has ended: long enough that the first account does not take a
whole room before anything is charged, short enough to be forgotten with the first ends."""

RECENT_RUNS = 8
"""A mean remembers about as many runs. More: who turns from runs of hours to runs of seconds waits
for as many more of those hours. Fewer: the mean jumps with every run."""

EARLY_RUNS = 4
"""An account's own mean counts half after so many runs, the mean of all accounts the rest. A first
run is often a trial that fails at once; that alone must not make the next one look like nothing."""

EXPECTED_S_MIN = 0.01
"""Of a charge. Below, starting a task costs its machine more than the task does, and nobody is
charged for that; also, a draw divides by it."""


class RunTimes(NamedTuple):
    """Run times of an account on one machine, without suspended time."""

    runs: int = 0
    """All of them; it only grows, so of two copies the larger is the later."""
    run_s: float = 0.0
    """Of the last `RECENT_RUNS`: their sum at first, later the older ones fade."""

    @property
    def recent_runs(self) -> int:
        """How many runs `run_s` stands for."""
        return min(self.runs, RECENT_RUNS)

    def with_run(self, ran_s: float, limit_s: float | None = None) -> RunTimes:
        """With one more ended run, whose time limit was `limit_s`.

        A run whose limit was below the mean was expected to last as long as the limit. Only by
        what it differed from that does it move the mean: otherwise runs of a second with a limit
        of a second would make an account's runs of an hour look short.
        """
        if self.runs < RECENT_RUNS:
            return RunTimes(self.runs + 1, self.run_s + ran_s)
        mean_s = self.run_s / RECENT_RUNS
        expected_s = mean_s if limit_s is None else min(limit_s, mean_s)
        return RunTimes(self.runs + 1, self.run_s + ran_s - expected_s)

    def merged(self, other: RunTimes) -> RunTimes:
        """Of two copies of one counter the later one, which has counted more."""
        return max(self, other)


NO_RUNS = RunTimes()


class RunSums(NamedTuple):
    """Run times of one account on all machines, or of all accounts."""

    runs: int = 0
    recent_runs: int = 0
    recent_s: float = 0.0

    def replaced(self, old: RunTimes, new: RunTimes) -> RunSums:
        """With `new` in the place of `old`, which is in it."""
        return RunSums(
            self.runs - old.runs + new.runs,
            self.recent_runs - old.recent_runs + new.recent_runs,
            max(0.0, self.recent_s - old.run_s + new.run_s),
        )


def mean_run_s(own: RunSums, all_accounts: RunSums) -> float:
    """Mean run time to expect of an account; `all_accounts` includes it.

    Of all accounts the recent runs count, so that the thousands of one do not speak for everybody.
    """
    if not all_accounts.recent_runs:
        return RUN_TO_BEGIN_WITH_S
    overall_s = all_accounts.recent_s / all_accounts.recent_runs
    if not own.recent_runs:
        return overall_s
    mean_s = own.recent_s / own.recent_runs
    return (own.runs * mean_s + EARLY_RUNS * overall_s) / (own.runs + EARLY_RUNS)


def expected_charge(rate: float, time_limit_s: float | None, mean_s: float) -> float:
    """Charged seconds to expect of a task, at speed 1 and without urgency; more than 0.

    `rate` is what a second of it is charged (`ChargeRule.rate`).
    """
    run_s = mean_s if time_limit_s is None else min(time_limit_s, mean_s)
    return max(EXPECTED_S_MIN, rate * run_s)


def provisional_charge(expected_s: float, accrued_s: float) -> float:
    """Return what a running task is still expected to be charged: counted in draws, never stored.

    Both have the factors of its machine and its urgency; `accrued_s` is charged already. A task
    that cost more than expected adds nothing more.
    """
    return max(0.0, expected_s - accrued_s)
