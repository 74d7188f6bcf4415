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
from pathlib import Path

from harness.options import read_options
from harness.report import as_number, finish, machine_facts, median, progress, read_answer

LOGS = ("KTH-SP2", "HPC2N", "RICC-60k")
POLICIES = ("fcfs", "easy")
QUICK_JOBS = 2_000
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


def measure_apart(name: str, policy: str, jobs_max: int | None) -> dict[str, object]:
    """As `measure`, in a process of its own, so that its memory is its own."""
    command = [sys.executable, __file__, "--one", name, policy, str(jobs_max or 0)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=RUN_S_MAX)
    return read_answer(done.stdout)


def main() -> None:
    """Measure every log under every policy; the median of the runs."""
    if sys.argv[1:2] == ["--one"]:
        name, policy, jobs_max = sys.argv[2:5]
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
    finish({"figures": figures, "machine": machine_facts(traces())})


if __name__ == "__main__":
    main()
