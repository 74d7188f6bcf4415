"""A simulation over time and by kind of job, as the plots of a report show it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from heapq import heappop, heappush
from itertools import groupby
from statistics import fmean
from typing import NamedTuple

from iriai.config.reader import Configuration
from iriai.model.ids import Account
from iriai.sim.workload.entitlement import moments, wanted
from iriai.sim.workload.log import Record
from iriai.sim.workload.metrics import quantile

BINS = 240
"""Steps of time in a plot: more cannot be told apart on a page."""
ACCOUNTS_MAX = 6
"""Accounts that a plot names; colours beyond are hard to tell apart."""
GANTT_JOBS_MAX = 150
"""Jobs in a chart of who ran where; more are specks."""


class Series(NamedTuple):
    """Means over each step of time."""

    times_s: Sequence[float]
    """The middle of each step."""
    used: Sequence[float]
    """Processors that ran something."""
    waiting: Sequence[float]
    """Jobs."""
    got: Mapping[Account, Sequence[float]]
    """Processors of those accounts that used most, the largest first."""
    wanted: Mapping[Account, Sequence[float]]
    """What the same were entitled to."""


class WidthClass(NamedTuple):
    """Waiting times of jobs of about one width."""

    label: str
    median_s: float
    p90_s: float


class Bar(NamedTuple):
    """One job on processors that lie side by side."""

    first_processor: int
    processors: int
    start_s: float
    run_s: float
    account: Account


def largest_accounts(records: Sequence[Record]) -> list[Account]:
    """Return the accounts with the most processor time, the largest first."""
    used: defaultdict[Account, float] = defaultdict(float)
    for record in records:
        used[record.job.account] += record.job.width * record.job.run_s
    return sorted(used, key=lambda account: (-used[account], account))[:ACCOUNTS_MAX]


def series(records: Sequence[Record], configuration: Configuration) -> Series:
    """Return the use of the machine over time."""
    named = largest_accounts(records)
    first_s = min(record.job.submit_s for record in records)
    span_s = max(record.end_s for record in records) - first_s
    step_s = span_s / BINS
    used, waiting = [0.0] * BINS, [0.0] * BINS
    got = {account: [0.0] * BINS for account in named}
    entitled = {account: [0.0] * BINS for account in named}
    for moment in moments(records):
        cpus = moment.cpus
        parts = wanted(moment.asked, cpus, configuration)
        for place, weight in _bins(moment.now_s - first_s, moment.span_s, step_s):
            used[place] += weight * cpus
            waiting[place] += weight * moment.waiting_jobs
            for account in named:
                got[account][place] += weight * moment.running.get(account, 0)
                entitled[account][place] += weight * parts.get(account, 0.0)
    times_s = [first_s + (place + 0.5) * step_s for place in range(BINS)]
    return Series(times_s, used, waiting, got, entitled)


def _bins(from_s: float, span_s: float, step_s: float) -> list[tuple[int, float]]:
    """Return the steps that a span overlaps, with the part of each step that it covers."""
    found = []
    place = min(BINS - 1, int(from_s / step_s))
    to_s = from_s + span_s
    while place < BINS and place * step_s < to_s:
        covered_s = min(to_s, (place + 1) * step_s) - max(from_s, place * step_s)
        found.append((place, covered_s / step_s))
        place += 1
    return found


def waits_by_width(records: Sequence[Record]) -> list[WidthClass]:
    """Return the waits of jobs by width: 1 processor, 2, 3 to 4, 5 to 8 and so on."""
    classes: defaultdict[int, list[float]] = defaultdict(list)
    for record in records:
        classes[(record.job.width - 1).bit_length()].append(record.wait_s)
    found = []
    for power in sorted(classes):
        low, high = (1 << power >> 1) + 1, 1 << power
        label = str(high) if low >= high else f"{low}-{high}"
        waits = sorted(classes[power])
        found.append(WidthClass(label, quantile(waits, 0.5), quantile(waits, 0.9)))
    return found


def mean_waits(records: Sequence[Record], accounts: Sequence[Account]) -> list[float]:
    """Return the mean wait of each of `accounts`; 0 for one without jobs."""
    waits: defaultdict[Account, list[float]] = defaultdict(list)
    for record in records:
        waits[record.job.account].append(record.wait_s)
    return [fmean(waits[account] or [0.0]) for account in accounts]


def bars(records: Sequence[Record], processors: int) -> list[Bar]:
    """Return the jobs by processor, if each takes the lowest free processors."""
    free = list(range(processors))
    ends: list[tuple[float, int, list[int]]] = []
    found = []
    for record in sorted(records, key=lambda each: (each.start_s, each.job.number)):
        while ends and ends[0][0] <= record.start_s:
            for processor in heappop(ends)[2]:
                heappush(free, processor)
        taken = [heappop(free) for _ in range(record.job.width)]
        heappush(ends, (record.end_s, record.job.number, taken))
        found += _side_by_side(record, taken)
    return found


def _side_by_side(record: Record, taken: list[int]) -> list[Bar]:
    run_s, account = record.end_s - record.start_s, record.job.account
    found = []
    for _, run in groupby(enumerate(taken), lambda each: each[1] - each[0]):
        processors = [processor for _, processor in run]
        found.append(Bar(processors[0], len(processors), record.start_s, run_s, account))
    return found
