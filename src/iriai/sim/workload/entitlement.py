"""Shares that each account got of a simulated machine, and was entitled to.

At each moment the processors in use are divided among the accounts that have work, by their rights
(group, then user within the group); nobody is entitled to more than it asks for, and what one
leaves goes to the others (weighted max-min fairness; Bertsekas and Gallager, Data Networks, 2nd
edition, section 6.5.2).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from iriai.config.reader import Configuration
from iriai.model.ids import Account
from iriai.sim.workload.log import Record

MOMENTS_MAX = 4000
"""More moments are looked at evenly: a division takes time for each account, and a log of years
has a million."""


class Moment(NamedTuple):
    """The machine from one moment to the next."""

    now_s: float
    span_s: float
    waiting_jobs: int
    asked: Mapping[Account, int]
    """Processors that run or wait for each account with work; the mapping goes on changing."""
    running: Mapping[Account, int]
    """Processors that run, of those with any; goes on changing, too."""

    @property
    def cpus(self) -> int:
        """The number of processors that run something."""
        return sum(self.running.values())


class AccountSpan(NamedTuple):
    """One account over the time in which it had work; processor seconds."""

    account: Account
    got_s: float
    wanted_s: float


def moments(records: Sequence[Record]) -> Iterator[Moment]:
    """Yield the machine over time: at every change, or at `MOMENTS_MAX` even steps."""
    if not records:
        return
    events = sorted(
        [(r.job.submit_s, 0, r) for r in records]
        + [(r.start_s, 1, r) for r in records]
        + [(r.end_s, 2, r) for r in records],
        key=lambda event: event[:2],
    )
    times = _times(events[0][0], events[-1][0], [event[0] for event in events])
    asked, running = Counter[Account](), Counter[Account]()
    waiting = place = 0
    for now_s, next_s in pairwise(times):
        while place < len(events) and events[place][0] <= now_s:
            _, kind, record = events[place]
            place += 1
            account, width = record.job.account, record.job.width
            if kind == 0:
                waiting += 1
                asked[account] += width
            elif kind == 1:
                waiting -= 1
                running[account] += width
            else:
                _less(asked, account, width)
                _less(running, account, width)
        yield Moment(now_s, next_s - now_s, waiting, asked, running)


def _times(first_s: float, last_s: float, at: list[float]) -> list[float]:
    distinct = sorted(set(at))
    if len(distinct) <= MOMENTS_MAX:
        return distinct
    step_s = (last_s - first_s) / MOMENTS_MAX
    return [first_s + place * step_s for place in range(MOMENTS_MAX)] + [last_s]


def _less(amounts: Counter[Account], account: Account, width: int) -> None:
    amounts[account] -= width
    if not amounts[account]:
        del amounts[account]


def wanted(
    asked: Mapping[Account, int], cpus: int, configuration: Configuration
) -> dict[Account, float]:
    """Return how `cpus` are divided by rights among the accounts that ask for some."""
    weights = _weights(asked, configuration)
    # In the order of how soon each has all that it asks for, nobody is looked at twice.
    order = sorted(asked, key=lambda account: (asked[account] / weights[account], account))
    left, total = float(cpus), 0.0
    for account in order:
        total += weights[account]
    parts = {}
    for account in order:
        part = min(float(asked[account]), left * weights[account] / total)
        parts[account] = part
        left -= part
        total -= weights[account]
    return parts


def _weights(asked: Mapping[Account, int], configuration: Configuration) -> dict[Account, float]:
    """Return the share wanted of each account, up to a factor."""
    if not configuration.groups:
        return dict.fromkeys(asked, 1.0)
    members: defaultdict[str, float] = defaultdict(float)
    for account in asked:
        members[account.group] += configuration.right_of_user(*account)
    return {
        account: configuration.right_of_group(account.group)
        * configuration.right_of_user(*account)
        / members[account.group]
        for account in asked
    }


def parts(records: Sequence[Record], configuration: Configuration) -> list[AccountSpan]:
    """Return what each account got and was entitled to while it had work, by name."""
    got: defaultdict[Account, float] = defaultdict(float)
    entitled: defaultdict[Account, float] = defaultdict(float)
    for moment in moments(records):
        for account, running in moment.running.items():
            got[account] += running * moment.span_s
        for account, part in wanted(moment.asked, moment.cpus, configuration).items():
            entitled[account] += part * moment.span_s
    return [AccountSpan(account, got[account], entitled[account]) for account in sorted(entitled)]
