"""Parallel jobs, one rank on a machine of one processor: how fast they are placed, and how well.

`replay_jobs_per_s`: the log KTH-SP2, whose widths are ranks on 100 machines, under EASY backfill in
order of arrival, each run in a process of its own.

The rest: 1,000 machines and a queue of 10,000 jobs, whose widths are 1, 2, 4 to 512 with equal
odds, their hours lognormal with sigma 1.5, seed 1; 20 accounts under the lottery and EASY, as
they are by default. `pass_p99_ms` is the processor time from the moment at which a broker has
heard of an end (all seats of a job end together) until it has said what starts, medians of the
runs; each is a process of its own and makes the same decisions.

`ratio` is how much of the machines is used until the last job has started, where each message
takes `delay_s` and a start three round trips, over the same where nothing takes time, so that the
broker always knows what is free. Beside it `area_bound`: the time that all jobs need on machines
that are never idle, over the time until the last has ended. All that is virtual time, so it is done
once. It takes some minutes. The log is read from $IRIAI_SHARED/traces, else ../shared/traces.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from harness.options import Options, read_options
from harness.parallel_cluster import ACCOUNTS, ParallelCluster, jobs_of
from harness.report import (
    as_number,
    finish,
    machine_facts,
    measured_apart,
    median,
    percentile,
    progress,
    ratio,
)

LOG = "KTH-SP2"
LOG_MACHINES = 100
QUICK_LOG_JOBS = 500
MACHINES = 1_000
JOBS, QUICK_JOBS = 10_000, 300
STARTS, QUICK_STARTS = 1_500, 250
"""Until so many jobs have started passes are timed."""
WARM_UP_PASSES = 20
SEED = 1
ORDER = "lottery"
DELAY_S = 0.05
"""Of a message: a continent, since a room is too near for anything to be seen."""
RUN_S_MAX = 3_600.0


def traces() -> Path:
    """Where the logs are."""
    shared = os.environ.get("IRIAI_SHARED")
    root = Path(shared) if shared else Path(__file__).resolve().parents[2] / "shared"
    return root / "traces"


def measure_replay(jobs_max: int) -> dict[str, object]:
    """Replay the log in this process; all of its jobs where `jobs_max` is 0."""
    from dataclasses import replace

    from iriai.sim.workload.replay import replay
    from iriai.sim.workload.settings import ReplaySettings
    from iriai.sim.workload.swf import read_swf

    log = read_swf(traces() / f"{LOG}.swf.gz")
    if jobs_max:
        log = replace(log, jobs=log.jobs[:jobs_max])
    began, began_cpu = time.perf_counter(), time.process_time()
    records = replay(log, ReplaySettings(machines=LOG_MACHINES))
    elapsed_s, cpu_s = time.perf_counter() - began, time.process_time() - began_cpu
    return {
        "replay_jobs_per_s": len(records) / elapsed_s,
        "replay_jobs_per_cpu_s": len(records) / cpu_s,
    }


def measure_passes(jobs: int, starts: int) -> dict[str, object]:
    """How long the broker took after each end, until so many jobs had started."""
    cluster = ParallelCluster(MACHINES, jobs_of(jobs, SEED), order=ORDER)
    cluster.run(starts)
    took_ms = cluster.took_ms[WARM_UP_PASSES:]
    return {
        "passes": len(took_ms),
        "pass_p50_ms": percentile(took_ms, 50),
        "pass_p99_ms": percentile(took_ms, 99),
        "pass_max_ms": max(took_ms),
    }


def measure_schedule(jobs: int, delay_s: float) -> dict[str, object]:
    """What is used of the machines, until the last job has started and until it has ended."""
    work = jobs_of(jobs, SEED)
    cluster = ParallelCluster(MACHINES, work, order=ORDER, delay_s=delay_s)
    cluster.run(jobs)
    starts = cluster.starts
    last_s = max(starts.values())
    used_s = sum(job.width * min(job.run_s, last_s - starts[job.number]) for job in work)
    ends_s = [starts[job.number] + job.run_s for job in work]
    return {
        "utilisation": used_s / (MACHINES * last_s),
        "area_bound": sum(job.width * job.run_s for job in work) / (MACHINES * max(ends_s)),
        "last_start_h": last_s / 3600.0,
    }


def apart(what: str, *arguments: object) -> dict[str, object]:
    """Measure in a process of its own."""
    return measured_apart(__file__, what, *arguments, run_s_max=RUN_S_MAX)


def measure_one(what: str, words: list[str]) -> dict[str, object]:
    """What `apart` asked for."""
    if what == "replay":
        return measure_replay(int(words[0]))
    if what == "passes":
        return measure_passes(int(words[0]), int(words[1]))
    return measure_schedule(int(words[0]), float(words[1]))


def measure(options: Options) -> dict[str, object]:
    """All figures."""
    jobs = options.tasks(JOBS, QUICK_JOBS)
    starts = options.tasks(STARTS, QUICK_STARTS)
    rounds: list[dict[str, object]] = []
    for run in range(options.runs):
        progress(f"run {run + 1} of {options.runs}: a log, then passes")
        replayed = apart("replay", options.tasks(0, QUICK_LOG_JOBS))
        rounds.append(replayed | apart("passes", jobs, starts))
    progress("all jobs, without delays")
    ideal = apart("schedule", jobs, 0.0)
    progress("all jobs, with delays")
    real = apart("schedule", jobs, DELAY_S)

    def of(name: str, digits: int = 2) -> float | None:
        return median([as_number(each[name]) for each in rounds], digits)

    used, known = (round(as_number(each["utilisation"]), 5) for each in (real, ideal))
    return {
        "replay_jobs_per_s": of("replay_jobs_per_s", 0),
        "replay_jobs_per_cpu_s": of("replay_jobs_per_cpu_s", 0),
        "passes": of("passes", 0),
        "pass_p50_ms": of("pass_p50_ms"),
        "pass_p99_ms": of("pass_p99_ms"),
        "pass_max_ms": of("pass_max_ms"),
        "ratio": ratio(used, known),
        "utilisation": used,
        "ideal_utilisation": known,
        "area_bound": round(as_number(real["area_bound"]), 4),
        "last_start_h": round(as_number(real["last_start_h"]), 1),
        "runs": rounds,
    }


def main() -> None:
    """Measure all, and print what was found."""
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(measure_one(sys.argv[2], sys.argv[3:])))
        return
    options = read_options(__doc__ or "")
    machine = machine_facts(traces())
    settings = {
        "log": LOG,
        "log_machines": LOG_MACHINES,
        "machines": MACHINES,
        "jobs": options.tasks(JOBS, QUICK_JOBS),
        "accounts": ACCOUNTS,
        "order": ORDER,
        "delay_s": DELAY_S,
        "seed": SEED,
        "runs": options.runs,
    }
    finish(measure(options) | {"settings": settings, "machine": machine})


if __name__ == "__main__":
    main()
