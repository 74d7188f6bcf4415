"""Generated workload logs.

`poisson`: arrivals without memory, lognormal run times, widths that are powers of 2. `lublin`: the
model of Lublin and Feitelson, "The workload on parallel supercomputers: modeling the
characteristics of rigid jobs", JPDC 63 (2003): arrivals with a daily cycle, run times that grow
with the width. Its constants are those that the authors published for jobs of all types.

Neither model says who hands jobs in, nor what they state as limits. Here users differ as in logs
(the n-th is n times as rare as the first), three to a group; a limit is the run time times a factor
between 1 and 5, rounded up to one of the values people use (Tsafrir, Etsion, Feitelson: "Modeling
user runtime estimates", JSSPP 2005: a handful of round values are nearly all that are ever stated).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate
from math import exp, floor, log2
from random import Random
from types import MappingProxyType
from typing import NamedTuple

from iriai.model.ids import Account
from iriai.model.problem import UsageProblem
from iriai.sim.workload.log import Log, LogJob

JOBS_MAX = 10_000_000
"""More would take hours, and all the memory of a small machine."""
USERS = 30
USERS_PER_GROUP = 3
BEGAN_WALL_S = 1_767_225_600.0
"""Second 0 of a generated log: midnight of 1 January 2026, UTC; the daily cycle counts from it."""
LIMITS_S = (
    *(60, 300, 600, 900, 1800, 3600, 7200, 10_800, 14_400, 21_600, 28_800, 43_200),
    *(64_800, 86_400, 172_800, 345_600, 604_800, 1_209_600),
)
"""What people state as limits, from a minute to two weeks."""


class Job(NamedTuple):
    """A job as a model generates it."""

    submit_s: float
    width: int
    run_s: float


Model = Callable[[Random, int], Iterator[Job]]
"""From a generator and a number of processors to jobs without end, in order of submission."""


def generate(
    model: str, jobs: int, processors: int, seed: int, *, perfect_estimates: bool = False
) -> Log:
    """Generate a log of `jobs` jobs for a machine of `processors`, determined by the arguments.

    With `perfect_estimates` everybody states exactly how long a job runs.

    Raises:
        UsageProblem: there is no such model, or a number is out of range.
    """
    if model not in MODELS:
        raise UsageProblem(
            "unknown-model", f"there is no model '{model}'", f"use one of: {', '.join(MODELS)}"
        )
    if not 1 <= jobs <= JOBS_MAX:
        raise UsageProblem(
            "bad-jobs", f"{jobs} jobs cannot be generated", f"use from 1 to {JOBS_MAX:,}"
        )
    if processors < 1:
        raise UsageProblem(
            "bad-processors", f"{processors} is not a number of processors", "use at least 1"
        )
    rng = Random(seed)
    bounds = list(accumulate(1.0 / (place + 1) for place in range(USERS)))
    rows = []
    for number, job in zip(range(1, jobs + 1), MODELS[model](rng, processors), strict=False):
        user = bisect_left(bounds, rng.random() * bounds[-1])
        account = Account(f"g{user // USERS_PER_GROUP + 1}", f"u{user + 1}")
        run_s = max(1, round(job.run_s))
        limit_s = _limit_s(run_s * (1 + 4 * rng.random()))
        run_s = min(run_s, limit_s)
        if perfect_estimates:
            limit_s = run_s
        rows.append(LogJob(number, floor(job.submit_s), run_s, job.width, limit_s, account))
    return Log(f"{model} model, seed {seed}", processors, rows, BEGAN_WALL_S)


def _limit_s(needed_s: float) -> int:
    return LIMITS_S[min(bisect_left(LIMITS_S, needed_s), len(LIMITS_S) - 1)]


# --- Poisson -----------------------------------------------------------------------------------

POISSON_LOAD = 0.8
"""Of the processors, on average."""
POISSON_RUN_MEDIAN_S = 600.0
POISSON_RUN_SIGMA = 1.5
"""Of the logarithm of run times: one in a hundred is 33 times the median or more."""


def poisson(rng: Random, processors: int) -> Iterator[Job]:
    """Yield Poisson arrivals that keep `POISSON_LOAD` of the processors busy."""
    widths = [1 << power for power in range(processors.bit_length()) if 1 << power <= processors]
    # Twice as wide is half as likely, so that each width takes the same part of the machine.
    chances = list(accumulate(1.0 / width for width in widths))
    mean_width = len(widths) / chances[-1]
    mean_run_s = POISSON_RUN_MEDIAN_S * exp(POISSON_RUN_SIGMA**2 / 2)
    per_s = POISSON_LOAD * processors / (mean_width * mean_run_s)
    now_s = 0.0
    while True:
        now_s += rng.expovariate(per_s)
        width = widths[bisect_left(chances, rng.random() * chances[-1])]
        yield Job(now_s, width, POISSON_RUN_MEDIAN_S * exp(rng.gauss(0.0, POISSON_RUN_SIGMA)))


# --- Lublin and Feitelson ------------------------------------------------------------------------

SERIAL = 0.244
"""The part of jobs with one processor."""
POWER_OF_TWO = 0.576
"""The part of jobs whose width is a higher power of 2."""
LOG2_WIDTH_MIN = 0.8
WIDE_FROM = 2.5
"""Below the logarithm of the machine's width: where the second, rarer stage of widths begins."""
NARROW = 0.86
"""The part of parallel jobs in the first stage."""
SHORT_RUNS = (4.2, 0.94)
"""Shape and scale of the gamma distribution of the logarithm of short run times in seconds."""
LONG_RUNS = (312.0, 0.03)
SHORT_PER_PROCESSOR, SHORT_BASE = -0.0054, 0.78
"""The chance of a short run falls with the width: short = base + per_processor x width."""
LOG_RUN_MAX = 12.0
"""Two days."""
GAPS = (10.2303 * 1.0225, 0.4871)
"""Of the logarithm of gaps between arrivals; the second factor stretches rush hours to the day."""
LOG_GAP_MAX = 13.0
"""Five days."""
DAY = (8.1737, 3.9631)
"""Of the half-hours of the day in which jobs arrive, counted from `DAY_BEGINS`."""
BUCKETS = 48
BUCKET_S = 1800.0
DAY_BEGINS = 11
"""Half past five: the quietest time."""


def lublin(rng: Random, processors: int) -> Iterator[Job]:
    """Yield jobs of the model of Lublin and Feitelson; see the module."""
    for submit_s in _arrivals(rng):
        width = _width(rng, processors)
        yield Job(submit_s, width, _run_s(rng, width))


def _width(rng: Random, processors: int) -> int:
    throw = rng.random()
    if throw <= SERIAL or processors == 1:
        return 1
    high = log2(processors)
    middle = max(LOG2_WIDTH_MIN, high - WIDE_FROM)
    low = min(LOG2_WIDTH_MIN, high)
    is_narrow = rng.random() <= NARROW
    from_, to = (low, middle) if is_narrow else (middle, high)
    power = from_ + (to - from_) * rng.random()
    if throw <= SERIAL + POWER_OF_TWO:
        power = floor(power + 0.5)
    return min(processors, floor(2**power + 0.5))


def _run_s(rng: Random, width: int) -> float:
    short = min(1.0, max(0.0, SHORT_BASE + SHORT_PER_PROCESSOR * width))
    while True:
        shape, scale = SHORT_RUNS if rng.random() <= short else LONG_RUNS
        log_run = rng.gammavariate(shape, scale)
        if log_run <= LOG_RUN_MAX:
            return exp(log_run)


def _arrivals(rng: Random) -> Iterator[float]:
    """Yield arrival times: gaps are paid in points, of which a busy half-hour has more."""
    worth = _worth_of_buckets()
    bucket, into, now_s = 0, 0.0, 0.0
    points = 0.0
    while True:
        log_gap = rng.gammavariate(*GAPS)
        if log_gap > LOG_GAP_MAX:
            continue
        points += exp(log_gap) / BUCKET_S
        while points > worth[bucket]:
            points -= worth[bucket]
            bucket = (bucket + 1) % BUCKETS
            now_s += BUCKET_S
        into_before, into = into, points / worth[bucket]
        now_s += BUCKET_S * (into - into_before)
        yield now_s


def _worth_of_buckets() -> list[float]:
    """Return the arrivals in each half-hour of the day, relative to their mean."""
    shape, scale = DAY

    def density(at: float) -> float:
        return float((at / scale) ** (shape - 1) * exp(-at / scale))

    worth = [0.0] * BUCKETS
    for place in range(DAY_BEGINS, DAY_BEGINS + BUCKETS):
        simpson = density(place - 0.5) + 4 * density(place) + density(place + 0.5)
        worth[(place - 1) % BUCKETS] = simpson
    total = 0.0
    for each in worth:
        total += each
    return [each * BUCKETS / total for each in worth]


MODELS: Mapping[str, Model] = MappingProxyType({"lublin": lublin, "poisson": poisson})
