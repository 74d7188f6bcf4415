"""Many machines and no head: the product's brokers against an oracle and a central manager.

In virtual time, with the product's nodes, homes and brokers; the order is fifo. `ratio_to_oracle`
is the utilisation in the window over that of an oracle that gives each task to a machine first
come, first served, in no time, on the same arrivals. `central_5_s` and `central_60_s` are the same
of a manager that decides once in 5 or 60 s. `bytes_per_s` is what a machine sends and receives,
frames and all messages of these parts, but neither TLS nor the membership's gossip. What was
assumed is in docs/experiments/no-head.md. From 1,000 machines up they are in clusters of 500.
`--large` adds 1,000 machines with few homes, and 10,000; `--machines 100000` runs so many, with as
many homes, and nothing else.

`--runs` is not used: one seed is one run, and the seeds that were used are in the result.
"""

from __future__ import annotations

import argparse
import gc
import os
import resource
import statistics
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from harness.options import read_options
from harness.report import finish, machine_facts, percentile, progress

from iriai.sim.experiments.no_head import (
    PAPER,
    Setting,
    Trial,
    arrivals_of,
    central,
    oracle,
)


def briefly(setting: Setting) -> Setting:
    """Where there are many machines, each still begins a task in the window, on average."""
    return replace(setting, warm_s=900.0, window_s=2700.0)


CLUSTER_MACHINES = 500


def many(machines: int, homes: int) -> Setting:
    """In clusters of the largest size that there is."""
    return briefly(Setting(machines, homes, cluster_machines=CLUSTER_MACHINES))


def vast(machines: int) -> Setting:
    """So many that each second of the window costs seconds: machines begin as busy as they stay."""
    return replace(many(machines, machines), warm_s=300.0, window_s=1200.0)


def saturated(machines: int, run_s: float, window_s: float) -> Setting:
    """Tasks that all take as long, more than can be done."""
    warm_s = window_s / 5.0
    return Setting(
        machines,
        machines,
        shortest_s=run_s,
        longest_s=run_s,
        warm_s=warm_s,
        window_s=window_s,
        is_saturated=True,
    )


class Case(NamedTuple):
    """Some seeds of one setting."""

    name: str
    setting: Setting
    seeds: int = 1


class Seen(NamedTuple):
    """What came of one seed."""

    utilisation: float
    oracle: float
    central_5: float
    central_60: float
    extra_waits_s: tuple[float, ...]
    bytes_mean: float
    bytes_of_brokers: float
    turns: int
    cpu_s: float
    memory_mb: float


def standard() -> list[Case]:
    """What fits into some minutes."""
    cases = []
    for machines, seeds in ((10, 4), (30, 2), (100, 1)):
        for homes in (1, 8, machines):
            setting = Setting(machines, homes)
            cases.append(Case(f"{machines} machines, {homes} homes", setting, seeds))
    hundred = Setting(100, 100)
    return [
        *cases,
        Case("paper's delays", replace(hundred, delays=PAPER)),
        Case("10 % loss", replace(hundred, loss=0.1)),
        Case("brokers die, 1 % loss", replace(hundred, loss=0.01, broker_dies_each_s=360.0)),
        Case("tasks of 10 s", saturated(50, 10.0, 300.0)),
        Case("tasks of 1 s", saturated(20, 1.0, 60.0)),
        Case("80 % load", briefly(Setting(300, 300, load=0.8))),
        Case("1000 machines, 1000 homes", many(1000, 1000)),
    ]


def large() -> list[Case]:
    """What takes an hour."""
    cases = [
        Case(f"{machines} machines, {homes} homes", many(machines, homes))
        for machines, homes in ((10_000, 10_000), (10_000, 8), (10_000, 1), (1000, 8), (1000, 1))
    ]
    return [*cases, *standard()]


def quick() -> list[Case]:
    """One of each kind, in the small."""
    few = Setting(6, 6, warm_s=300.0, window_s=600.0)
    return [
        Case("6 machines, 6 homes", few),
        Case("10 % loss", replace(few, loss=0.1)),
        Case("two clusters", replace(few, cluster_machines=3)),
        Case("tasks of 1 s", saturated(4, 1.0, 10.0)),
    ]


def measure(setting: Setting) -> Seen:
    """One seed, in a process of its own."""
    gc.set_threshold(200_000, 50, 100)  # hardly anything is garbage that counting does not free
    arrivals = arrivals_of(setting)
    best = oracle(setting, arrivals)
    trial = Trial(setting, arrivals)
    before = resource.getrusage(resource.RUSAGE_SELF)
    result = trial.run()
    after = resource.getrusage(resource.RUSAGE_SELF)
    pairs = zip(result.waits_s, best.waits_s, strict=True)
    bytes_of = trial.bytes_per_s()
    brokers = trial.broker_names()
    return Seen(
        result.utilisation,
        best.utilisation,
        central(setting, arrivals, 5.0).utilisation,
        central(setting, arrivals, 60.0).utilisation,
        tuple(ours - least for ours, least in pairs if ours >= 0.0 and least >= 0.0),
        statistics.fmean(bytes_of.values()),
        max((bytes_of[name] for name in brokers), default=0.0),
        sum(machine.turns for machine in trial.world.machines.values()),
        after.ru_utime - before.ru_utime,
        after.ru_maxrss / 1024.0,
    )


def figures(case: Case, seen: list[Seen]) -> dict[str, object]:
    """All seeds of a case together."""
    best = sum(each.oracle for each in seen)

    def to_oracle(values: list[float]) -> float:
        return round(sum(values) / best, 6)

    waits_s = [wait_s for each in seen for wait_s in each.extra_waits_s]
    answer: dict[str, object] = {
        "ratio_to_oracle": to_oracle([each.utilisation for each in seen]),
        "central_5_s": to_oracle([each.central_5 for each in seen]),
        "central_60_s": to_oracle([each.central_60 for each in seen]),
        "oracle_utilisation": round(best / len(seen), 4),
        "bytes_per_s_mean": round(statistics.fmean(each.bytes_mean for each in seen), 1),
        "bytes_per_s_broker": round(max(each.bytes_of_brokers for each in seen), 1),
        "seeds": list(range(1, case.seeds + 1)),
        "turns": sum(each.turns for each in seen),
        "cpu_s": round(sum(each.cpu_s for each in seen), 1),
        "memory_mb": round(max(each.memory_mb for each in seen), 1),
    }
    if len(waits_s) > 1:
        answer["extra_wait_p50_s"] = round(percentile(waits_s, 50), 3)
        answer["extra_wait_p99_s"] = round(percentile(waits_s, 99), 3)
    return answer


def chosen() -> list[Case]:
    """Which cases are asked for."""
    own = argparse.ArgumentParser(add_help=False)
    own.add_argument("--large", action="store_true")
    own.add_argument("--machines", type=int)
    asked, sys.argv[1:] = own.parse_known_args()
    options = read_options(__doc__ or "")
    if asked.machines:
        return [Case(f"{asked.machines} machines", vast(asked.machines))]
    return quick() if options.quick else large() if asked.large else standard()


def main() -> None:
    """Every case; seeds side by side, one on each processor: time is virtual."""
    cases = chosen()
    answers: dict[str, dict[str, object]] = {}
    with ProcessPoolExecutor(len(os.sched_getaffinity(0)), max_tasks_per_child=1) as pool:
        under_way = [
            (case, [pool.submit(measure, replace(case.setting, seed=s + 1)) for s in range(seeds)])
            for case in cases
            for seeds in [case.seeds]
        ]
        for case, futures in under_way:
            answers[case.name] = figures(case, [future.result() for future in futures])
            progress(f"{case.name}: {answers[case.name]}")
    settings = {
        "runs": 1,
        "order": "fifo",
        "windows_s": {case.name: [case.setting.warm_s, case.setting.window_s] for case in cases},
    }
    machine = machine_facts(Path.cwd())
    finish({"figures": answers, "settings": settings, "machine": machine})


if __name__ == "__main__":
    main()
