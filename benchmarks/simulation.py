"""The simulator: jobs a second in replay mode, and what memory it takes, on logs of real machines.

`replay_jobs_per_s` and `peak_mb` for each log and policy: fifo order, one processor, a process of
its own for each run. The clock runs from the log in memory to the last start; `read_s` is what
reading it took before. `cost_ratio` is the time for each job over that on KTH-SP2. The logs are not
shipped: they are read from $IRIAI_SHARED/traces, else ../shared/traces.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.options import read_options
from harness.report import as_number, finish, machine_facts, median, progress, read_answer

LOGS = ("KTH-SP2", "HPC2N", "RICC-60k")
POLICIES = ("fcfs", "easy")
QUICK_JOBS = 2_000
FULL_MACHINES = 1_000
FULL_JOBS = 10_000
SEEDS = 1_000
QUICK_SEEDS = 100
RUN_S_MAX = 600.0


def traces() -> Path:
    """Where the logs are."""
    shared = os.environ.get("IRIAI_SHARED")
    root = Path(shared) if shared else Path(__file__).resolve().parents[2] / "shared"
    return root / "traces"


def measure(name: str, policy: str, jobs_max: int | None) -> dict[str, object]:
    """Replay one log in this process."""
    from dataclasses import replace

    from iriai.sim.replay import replay
    from iriai.sim.settings import Settings
    from iriai.sim.swf import read_swf

    began = time.perf_counter()
    log = read_swf(traces() / f"{name}.swf.gz")
    read_s = time.perf_counter() - began
    if jobs_max is not None:
        log = replace(log, jobs=log.jobs[:jobs_max])
    began = time.perf_counter()
    records = replay(log, Settings(policy=policy))
    elapsed_s = time.perf_counter() - began
    return {
        "jobs": len(records),
        "replay_jobs_per_s": round(len(records) / elapsed_s, 1),
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
        "read_s": round(read_s, 2),
    }


def measure_full(jobs: int) -> dict[str, object]:
    """A large world, twice: once to count what its parts are told, once against the clock."""
    from iriai.broker.core import Broker
    from iriai.home.core import Home
    from iriai.node.core import Node
    from iriai.sim.load import large_world, run_to_the_end

    handles = 0
    parts: tuple[Any, ...] = (Node, Home, Broker)
    kept = [part.handle for part in parts]

    def counting(handle: Callable[..., object]) -> Callable[..., object]:
        def count(*arguments: object) -> object:
            nonlocal handles
            handles += 1
            return handle(*arguments)

        return count

    for part in parts:
        part.handle = counting(part.handle)
    run_to_the_end(large_world(FULL_MACHINES, jobs))
    for part, handle in zip(parts, kept, strict=True):
        part.handle = handle
    world = large_world(FULL_MACHINES, jobs)
    began = time.perf_counter()
    run_to_the_end(world)
    elapsed_s = time.perf_counter() - began
    return {
        "machines": FULL_MACHINES,
        "jobs": jobs,
        "handles": handles,
        "full_handles_per_s": round(handles / elapsed_s),
    }


def measure_seeds(seeds: int) -> dict[str, object]:
    """Small worlds with faults."""
    from iriai.sim.faults import fails
    from iriai.sim.scenario import scenario_of

    began = time.perf_counter()
    failed = [seed for seed in range(1, seeds + 1) if fails(scenario_of(seed)) is not None]
    elapsed_s = time.perf_counter() - began
    return {"seeds": seeds, "failed": failed, "seeds_per_minute": round(seeds * 60 / elapsed_s)}


def measure_apart(name: str, policy: str, jobs_max: int | None) -> dict[str, object]:
    """As `measure`, in a process of its own, so that its memory is its own."""
    command = [sys.executable, __file__, "--one", name, policy, str(jobs_max or 0)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=RUN_S_MAX)
    return read_answer(done.stdout)


def main() -> None:
    """Measure every log under every policy; the median of the runs."""
    if sys.argv[1:2] == ["--one"]:
        name, policy, jobs_max = sys.argv[2:5]
        if name == "full":
            print(json.dumps(measure_full(int(jobs_max) or FULL_JOBS)))
        elif name == "seeds":
            print(json.dumps(measure_seeds(int(jobs_max) or SEEDS)))
        else:
            print(json.dumps(measure(name, policy, int(jobs_max) or None)))
        return
    options = read_options(__doc__ or "")
    figures: dict[str, dict[str, object]] = {}
    for name in LOGS:
        for policy in POLICIES:
            rates: list[float] = []
            answer: dict[str, object] = {}
            for run in range(options.runs):
                progress(f"{name}, {policy}, run {run + 1} of {options.runs}")
                answer = measure_apart(name, policy, QUICK_JOBS if options.quick else None)
                rates.append(as_number(answer["replay_jobs_per_s"]))
            figures[f"{name} {policy}"] = answer | {
                "replay_jobs_per_s": median(rates),
                "runs": rates,
            }
    for label, figure in figures.items():
        base = as_number(figures[f"KTH-SP2 {label.split()[1]}"]["replay_jobs_per_s"])
        figure["cost_ratio"] = round(base / as_number(figure["replay_jobs_per_s"]), 2)
    progress("full mode")
    full = measure_apart("full", "", QUICK_JOBS if options.quick else None)
    progress("faults")
    faults = measure_apart("seeds", "", QUICK_SEEDS if options.quick else None)
    finish({"figures": figures, "full": full, "faults": faults, "machine": machine_facts(traces())})


if __name__ == "__main__":
    main()
