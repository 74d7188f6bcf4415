"""Many machines and no head: the product's brokers against an oracle and a central manager.

In virtual time, with the product's nodes, homes, brokers, memberships and directories; the order
is fifo. `ratio_to_oracle` is the utilisation in the window over that of an oracle that gives each
task to a machine first come, first served, in no time, on the same arrivals; `ratio_to_base` over
that of the row that differs in one thing. `central_5_s` and `central_60_s` are those of a manager
that decides once in 5 or 60 s; in one short window the edge is worth more than the manager loses,
so `central_5_s_of_many` is the mean of many windows of two hours. `extra_wait` is a task's wait
less its wait under the oracle, and `extra_wait_of_lines` the same of an oracle with a line for each
cluster. `bytes_per_s` is what a machine sends and receives: frames, records of TLS, handshakes,
pings; TCP and IP are not in it.
What was assumed is in docs/experiments/no-head.md.

The standard rows take ten minutes; `--large` adds those of 1,000 machines with few homes, of 10,000
and of 100,000, which take hours and 6 GB. `--only TEXT` runs the rows whose name has TEXT in it.
With `--pictures` the picture and the JSON are renewed there; rows that were not run now stay.
`--runs` is not used: one seed is one run, and the seeds that were used are in the result.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import resource
import statistics
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

from experiments.no_head import (
    Result,
    Trial,
    Variant,
    arrivals_of,
    central,
    oracle,
    oracle_of_lines,
)
from harness import no_head_pictures, no_head_rows
from harness.no_head_rows import Row
from harness.options import Options, read_options
from harness.report import finish, machine_facts, percentile, progress

JSON_NAME = "no-head.json"
MANAGED_TASKS = 50_000
"""How many are enough for a manager's loss, which is some ten thousandths of the work."""


class Seen(NamedTuple):
    """What came of one seed."""

    utilisation: float
    oracle: float
    central_5: float
    central_60: float
    extra_waits_s: Sequence[float]
    extra_waits_of_lines_s: Sequence[float]
    """Empty where all machines are one cluster."""
    bytes_mean: float
    gossip_mean: float
    bytes_of_brokers: float
    turns: int
    cpu_s: float
    memory_mb: float


def extra_waits_s(result: Result, best: Result) -> tuple[float, ...]:
    """Of tasks that started in the window in both."""
    pairs = zip(result.waits_s, best.waits_s, strict=True)
    return tuple(ours - least for ours, least in pairs if ours >= 0.0 and least >= 0.0)


def measure(setting: Variant) -> Seen:
    """One seed, in a process of its own."""
    gc.set_threshold(200_000, 50, 100)  # hardly anything is garbage that counting does not free
    arrivals = arrivals_of(setting)
    best = oracle(setting, arrivals)
    lines = oracle_of_lines(setting, arrivals) if setting.clusters > 1 else None
    before = resource.getrusage(resource.RUSAGE_SELF)
    trial = Trial(setting, arrivals)
    result = trial.run()
    after = resource.getrusage(resource.RUSAGE_SELF)
    bytes_of, gossip = trial.bytes_per_s(), trial.gossip_per_s()
    return Seen(
        result.utilisation,
        best.utilisation,
        central(setting, arrivals, 5.0).utilisation,
        central(setting, arrivals, 60.0).utilisation,
        extra_waits_s(result, best),
        extra_waits_s(lines, best) if lines is not None else (),
        statistics.fmean(bytes_of.values()),
        statistics.fmean(gossip.values()),
        max((bytes_of[name] for name in trial.broker_names()), default=0.0),
        sum(machine.turns for machine in trial.world.machines.values()),
        after.ru_utime - before.ru_utime,
        after.ru_maxrss / 1024.0,
    )


def managed(setting: Variant) -> float:
    """A manager with a cycle of 5 s, over the oracle, in many windows of two hours."""
    long = replace(setting, warm_s=1800.0, window_s=7200.0)
    each = setting.machines * long.end_s / setting.mean_s
    oracles = managers = 0.0
    for seed in range(1, max(2, round(MANAGED_TASKS / each)) + 1):
        window = replace(long, seed=seed)
        arrivals = arrivals_of(window)
        oracles += oracle(window, arrivals).utilisation
        managers += central(window, arrivals, 5.0).utilisation
    return managers / oracles


def figures(row: Row, seen: list[Seen]) -> dict[str, Any]:
    """All seeds of a row together."""
    best = sum(each.oracle for each in seen)

    def to_oracle(values: list[float]) -> float:
        return round(sum(values) / best, 6)

    answer: dict[str, Any] = {
        "ratio_to_oracle": to_oracle([each.utilisation for each in seen]),
        "central_5_s": to_oracle([each.central_5 for each in seen]),
        "central_60_s": to_oracle([each.central_60 for each in seen]),
        "central_5_s_of_many": round(managed(row.setting), 6),
        "oracle_utilisation": round(best / len(seen), 4),
        "bytes_per_s_mean": round(statistics.fmean(each.bytes_mean for each in seen), 1),
        "gossip_bytes_per_s_mean": round(statistics.fmean(each.gossip_mean for each in seen), 1),
        "bytes_per_s_broker": round(max(each.bytes_of_brokers for each in seen), 1),
        "window_s": [row.setting.warm_s, row.setting.window_s],
        "seeds": list(range(1, row.seeds + 1)),
        "turns": sum(each.turns for each in seen),
        "cpu_s": round(sum(each.cpu_s for each in seen), 1),
        "memory_mb": round(max(each.memory_mb for each in seen), 1),
    }
    for name, waits_s in (
        ("extra_wait", [wait_s for each in seen for wait_s in each.extra_waits_s]),
        ("extra_wait_of_lines", [w_s for each in seen for w_s in each.extra_waits_of_lines_s]),
    ):
        if len(waits_s) > 1:
            answer[f"{name}_p50_s"] = round(percentile(waits_s, 50), 3)
            answer[f"{name}_p99_s"] = round(percentile(waits_s, 99), 3)
    return answer


def compared(rows: list[Row], answers: dict[str, dict[str, Any]]) -> None:
    """Add to rows that have a base what is left of its utilisation."""
    for row in rows:
        base = answers.get(row.base)
        if base is not None:
            ratio = answers[row.name]["ratio_to_oracle"] / base["ratio_to_oracle"]
            answers[row.name]["ratio_to_base"] = round(ratio, 6)


def run(rows: list[Row]) -> dict[str, dict[str, Any]]:
    """Every row; seeds side by side, one on each processor: time is virtual."""
    answers: dict[str, dict[str, Any]] = {}
    processes = len(os.sched_getaffinity(0))
    # A new process for each: what one leaves in memory would be in the figures of the next.
    with ProcessPoolExecutor(processes, get_context("spawn"), max_tasks_per_child=1) as pool:
        under_way = [
            (row, [pool.submit(measure, replace(row.setting, seed=s + 1)) for s in range(seeds)])
            for row in rows
            for seeds in [row.seeds]
        ]
        for row, futures in under_way:
            answers[row.name] = figures(row, [future.result() for future in futures])
            progress(f"{row.name}: {answers[row.name]}")
    compared(rows, answers)
    return answers


def chosen() -> tuple[list[Row], Options]:
    """Which rows are asked for; exits with 2 where there is none of that name."""
    own = argparse.ArgumentParser(add_help=False)
    own.add_argument("--large", action="store_true")
    own.add_argument("--only", default="", metavar="TEXT")
    asked, sys.argv[1:] = own.parse_known_args()
    options = read_options(__doc__ or "")
    all_rows = no_head_rows.large() if asked.large else no_head_rows.standard()
    rows = no_head_rows.quick() if options.quick else all_rows
    found = [row for row in rows if asked.only in row.name]
    if not found:
        names = "; ".join(row.name for row in rows)
        own.error(f"--only {asked.only}: no row has this in its name; there are: {names}")
    return found, options


def keep(result: dict[str, Any], place: Path) -> None:
    """Renew the JSON and the picture; rows that were not run stay as they are."""
    place.mkdir(parents=True, exist_ok=True)
    path = place / JSON_NAME
    before = json.loads(path.read_text())["figures"] if path.exists() else {}
    merged = before | result["figures"]
    path.write_text(json.dumps(result | {"figures": merged}, indent=1) + "\n")
    no_head_pictures.draw(merged, place)


def main() -> None:
    """All rows that are asked for, as one JSON object."""
    rows, options = chosen()
    result = {
        "figures": run(rows),
        "settings": {"runs": 1, "order": "fifo"},
        "machine": machine_facts(Path.cwd()),
    }
    if options.pictures is not None:
        keep(result, options.pictures)
    finish(result)


if __name__ == "__main__":
    main()
