"""Metrics of a simulation; the same records give the same bytes.

Sums are exact (`math.fsum`) so that no order of addition, and no version of Python, shows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import fsum

import msgspec
from msgspec.structs import replace

from iriai.sim.workload.log import Record
from iriai.sim.workload.reservations import LogRun

SLOWDOWN_RUN_S_MIN = 10.0
"""Shorter runs count as so long in the slowdown: otherwise jobs of a second would be all there is
(Feitelson and others: "Theory and practice in parallel job scheduling", JSSPP 1997)."""


class Spread(msgspec.Struct, frozen=True):
    """A distribution in a few numbers."""

    mean: float
    p50: float
    p99: float
    max: float


class ReservationMetrics(msgspec.Struct, frozen=True):
    """Numbers of the reservations beside a log."""

    asked: int
    accepted: int
    acceptance: float
    """Of those that were asked for."""
    delay_to_earliest_s: Spread | None
    """Of those that were refused: from the start that was asked for to the earliest that would have
    done. None: none was refused, or none known."""
    without_earliest: int
    """Those that were refused, and no start was known that would do."""
    reserved: float
    """Of the processors, from the first submission to the last end of a job."""
    late_starts: int
    """Those that were not open a second after their start."""
    promises_broken: int
    """Jobs that started later than they were told once."""


class Metrics(msgspec.Struct, frozen=True):
    """Numbers of one simulation, as `metrics.json` has them; times in seconds."""

    jobs: int
    processors: int
    wait_s: Spread
    bounded_slowdown: Spread
    """(wait + run) / max(run, 10 s), at least 1."""
    utilisation: float
    """Of the processors, from the first submission to the last end."""
    first_submit_s: float
    last_start_s: float
    last_end_s: float
    makespan_s: float
    """From the first submission to the last end."""
    accounts: int
    jain_index: float | None
    """Of share got over share wanted of each account, integrated over the time in which it had
    work: 1 is fair, 1/n is one account that gets all (Jain, Chiu, Hawe, DEC TR-301, 1984). None
    where no two accounts ever wanted something at once."""
    reservations: ReservationMetrics | None = None
    """None: none was asked for."""


def quantile(ordered: Sequence[float], part: float) -> float:
    """Return the smallest value that at least `part` of `ordered` do not exceed."""
    place = -int(-part * len(ordered) // 1)
    return ordered[max(0, min(len(ordered), place) - 1)]


def spread(values: Iterable[float]) -> Spread:
    """Return mean, median, 99th percentile and maximum of `values`, at least one."""
    ordered = sorted(values)
    return Spread(
        fsum(ordered) / len(ordered),
        float(quantile(ordered, 0.5)),
        float(quantile(ordered, 0.99)),
        float(ordered[-1]),
    )


def bounded_slowdown(record: Record) -> float:
    """Return the time from submission to end over the run time, at least 1."""
    run_s = record.job.run_s
    return max(1.0, (record.wait_s + run_s) / max(run_s, SLOWDOWN_RUN_S_MIN))


def jain_index(values: Sequence[float]) -> float | None:
    """Return (sum x)^2 / (n sum x^2); None without values other than zero."""
    squares = fsum(value * value for value in values)
    if not squares:
        return None
    return fsum(values) ** 2 / (len(values) * squares)


def measure(records: Sequence[Record], processors: int, ratios: Sequence[float]) -> Metrics:
    """Return the metrics; `ratios` are share got over share wanted of each account."""
    first_s = float(min(record.job.submit_s for record in records))
    last_s = float(max(record.end_s for record in records))
    work_s = fsum(record.job.width * (record.end_s - record.start_s) for record in records)
    return Metrics(
        len(records),
        processors,
        spread(record.wait_s for record in records),
        spread(bounded_slowdown(record) for record in records),
        work_s / (processors * (last_s - first_s)),
        first_s,
        float(max(record.start_s for record in records)),
        last_s,
        last_s - first_s,
        len({record.job.account for record in records}),
        jain_index(ratios),
    )


def with_reservations(metrics: Metrics, run: LogRun) -> Metrics:
    """Return the metrics with those of the reservations of the same run, if there are any."""
    outcomes = run.reservations
    if not outcomes:
        return metrics
    refused = [each for each in outcomes if not each.is_accepted]
    delays_s = [
        each.earliest_s - each.reservation.start_s
        for each in refused
        if each.earliest_s is not None
    ]
    kept = [each.reservation for each in outcomes if each.is_accepted]
    first_s, last_s = metrics.first_submit_s, metrics.last_end_s
    reserved_s = fsum(
        each.width * max(0.0, min(each.end_s, last_s) - max(each.start_s, first_s)) for each in kept
    )
    found = ReservationMetrics(
        len(outcomes),
        len(kept),
        len(kept) / len(outcomes),
        spread(delays_s) if delays_s else None,
        len(refused) - len(delays_s),
        reserved_s / (metrics.processors * metrics.makespan_s),
        sum(each.is_late for each in outcomes),
        run.promises_broken,
    )
    return replace(metrics, reservations=found)
