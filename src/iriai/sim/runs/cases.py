"""One simulation of a log, and several: what `--compare` and `--sweep` name."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import product
from math import prod
from signal import SIG_IGN, SIGINT, signal
from typing import NamedTuple

from msgspec.structs import replace as with_fields

from iriai.config.keys import WrongValue, keys
from iriai.config.sections import OrderSection
from iriai.model.problem import UsageProblem
from iriai.plugins.orders import BUILT_IN
from iriai.plugins.policy_file import is_own_policy
from iriai.sim.workload import full
from iriai.sim.workload.entitlement import parts
from iriai.sim.workload.log import Log, Progress, Record, no_progress, with_starts
from iriai.sim.workload.metrics import Metrics, measure, with_reservations
from iriai.sim.workload.replay import replay_all
from iriai.sim.workload.settings import FULL, POLICIES, ReplaySettings


class Simulation(NamedTuple):
    """The result of a log under given settings."""

    settings: ReplaySettings
    records: Sequence[Record]
    metrics: Metrics


def simulate(log: Log, settings: ReplaySettings, progress: Progress = no_progress) -> Simulation:
    """Simulate `log` and compute its metrics."""
    simulated = full.simulate_all if settings.mode == FULL else replay_all
    run = simulated(log, settings, progress)
    records = run.records
    entitled = parts(records, settings.rights_for(log))
    ratios = [part.got_s / part.wanted_s for part in entitled if part.wanted_s > 0]
    metrics = measure(records, log.processors, ratios)
    return Simulation(settings, records, with_reservations(metrics, run))


CASES_MAX = 10_000
"""The most simulations of one sweep."""
_RANGE = re.compile(r"(\d{1,9})\.\.(\d{1,9})")
_ORDER_KEYS = [name for name in keys(OrderSection) if name not in ("name", "backfill")]
SWEPT = ("policy", "order", "seed", *_ORDER_KEYS)
"""The keys that a sweep may vary, by the names of the configuration."""


class Case(NamedTuple):
    """The settings of one simulation, with its label."""

    label: str
    settings: ReplaySettings


def compared(text: str, base: ReplaySettings) -> list[Case]:
    """Return the cases of `--compare`: policies, orders or both (`A+B`), separated by commas.

    Raises:
        UsageProblem: a word is neither a policy nor an order.
    """
    return [_compared(word.strip(), base) for word in text.split(",")]


def _compared(label: str, base: ReplaySettings) -> Case:
    settings = base
    for word in label.split("+"):
        if word in POLICIES or is_own_policy(word):
            settings = replace(settings, policy=word)
        elif word in BUILT_IN:
            settings = replace(settings, order=word)
        else:
            raise UsageProblem(
                "bad-compare",
                f"'{word}' is neither a policy nor an order",
                f"policies: {', '.join(POLICIES)}, FILE.py:CLASS; orders: {', '.join(BUILT_IN)}",
            )
    return Case(label, settings)


def swept(words: Sequence[str], base: ReplaySettings) -> list[Case]:
    """Return the cases of `--sweep KEY=VALUES ...`: every combination.

    Raises:
        UsageProblem: a key cannot be varied, or a value is not one of it.
    """
    axes = [_axis(word) for word in words]
    count = prod(len(values) for _, values in axes)
    if count > CASES_MAX:
        raise UsageProblem(
            "bad-sweep", f"this sweep has {count:,} simulations", f"the limit is {CASES_MAX:,}"
        )
    keys = [key for key, _ in axes]
    if len({*keys}) < len(keys):
        raise UsageProblem(
            "bad-sweep", "a key stands twice in the sweep", "give all values at once"
        )
    cases = []
    for chosen in product(*(values for _, values in axes)):
        settings = base
        for key, value in zip(keys, chosen, strict=True):
            settings = _with(settings, key, value)
        label = " ".join(f"{key}={value}" for key, value in zip(keys, chosen, strict=True))
        cases.append(Case(label, settings))
    return cases


def _axis(word: str) -> tuple[str, list[str]]:
    key, equals, text = word.partition("=")
    if not equals or key not in SWEPT or not text:
        raise UsageProblem(
            "bad-sweep",
            f"'{word}' names nothing to vary",
            f"use KEY=A,B or KEY=1..10; keys: {', '.join(SWEPT)}",
        )
    values: list[str] = []
    for part in text.split(","):
        span = _RANGE.fullmatch(part)
        if span:
            first, last = int(span[1]), int(span[2])
            if last - first >= CASES_MAX or last < first:
                raise UsageProblem(
                    "bad-sweep",
                    f"{part} is not a range",
                    f"use ascending values, at most {CASES_MAX:,}",
                )
            values += map(str, range(first, last + 1))
        else:
            values.append(part)
    return key, values


def _with(settings: ReplaySettings, key: str, value: str) -> ReplaySettings:
    if key in ("policy", "order"):
        known = POLICIES if key == "policy" else BUILT_IN
        if value not in known and not (key == "policy" and is_own_policy(value)):
            raise UsageProblem(
                "bad-sweep", f"there is no {key} '{value}'", f"use one of: {', '.join(known)}"
            )
        return (
            replace(settings, policy=value) if key == "policy" else replace(settings, order=value)
        )
    if key == "seed":
        if not value.isdecimal():
            raise UsageProblem("bad-sweep", f"'{value}' is not a seed", "seeds are whole numbers")
        return replace(settings, seed=int(value))
    field, kind = keys(OrderSection)[key]
    try:
        order = with_fields(settings.configuration.order, **{field: kind.read(_plain(value))})
    except WrongValue as wrong:
        raise UsageProblem("bad-sweep", f"{key} is '{value}'", f"write {wrong}") from None
    return replace(settings, configuration=with_fields(settings.configuration, order=order))


def _plain(value: str) -> object:
    """Return `value` as the configuration file would hold it: as a number if it is one."""
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    return value


class _Outcome(NamedTuple):
    """The result of a case as a worker returns it: the jobs themselves stay out."""

    starts_s: array[float]
    metrics: Metrics


def run_cases(
    log: Log,
    cases: Sequence[Case],
    workers: int,
    done: Callable[[int], None],
    *,
    keep_records: bool,
) -> list[Simulation]:
    """Run all cases in up to `workers` processes; call `done` with the number finished.

    Without `keep_records` only the numbers are kept: a sweep over a long log has many records.

    Raises:
        Problem: that of the first case that failed.
    """
    if workers == 1 or len(cases) == 1:
        return _collected(log, cases, map(partial(_simulated, log), cases), done, keep_records)
    pool = ProcessPoolExecutor(min(workers, len(cases)), initializer=_keep, initargs=(log,))
    try:
        outcomes = pool.map(_simulated_there, cases)
        return _collected(log, cases, outcomes, done, keep_records)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _collected(
    log: Log,
    cases: Sequence[Case],
    outcomes: Iterable[_Outcome],
    done: Callable[[int], None],
    keep_records: bool,
) -> list[Simulation]:
    found: list[Simulation] = []
    for case, outcome in zip(cases, outcomes, strict=True):
        records = with_starts(log, outcome.starts_s) if keep_records else []
        found.append(Simulation(case.settings, records, outcome.metrics))
        done(len(found))
    return found


def _simulated(log: Log, case: Case) -> _Outcome:
    _, records, metrics = simulate(log, case.settings)
    return _Outcome(array("d", (record.start_s for record in records)), metrics)


_log: Log | None = None
"""The log of a worker process, sent once since it is large."""


def _keep(log: Log) -> None:
    global _log  # noqa: PLW0603 - the initializer of a worker has no other place
    _log = log
    signal(SIGINT, SIG_IGN)  # whoever started the sweep ends it


def _simulated_there(case: Case) -> _Outcome:
    assert _log is not None
    return _simulated(_log, case)
