"""The simulator: logs of real machines, a large world with every message, small ones with faults.

`replay_jobs_per_s` and `peak_mb` for each log and policy: fifo order, one processor, a process of
its own for each run, from the log in memory to the last start (`read_s` is what reading it took
before). `limit_jobs_per_s` is a bare heap through which the same submissions and ends pass, in the
same process. `cost_ratio` is the processor time for each job over that on KTH-SP2.
`full_handles_per_s` counts what the parts of 1,001 machines are told while 10,000 jobs pass.
`seeds_per_minute` are small worlds with faults, all checks on. The logs are not shipped: they are
read from $IRIAI_SHARED/traces, else ../shared/traces.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import sys
import time
from heapq import heappop, heappush
from pathlib import Path

from harness import peers
from harness.options import Options, read_options
from harness.report import (
    as_number,
    finish,
    machine_facts,
    measured_apart,
    median,
    progress,
    ratio,
)

BASE = "KTH-SP2"
REPLAYS = (
    (BASE, "fcfs"),
    (BASE, "easy"),
    ("HPC2N", "fcfs"),
    ("HPC2N", "easy"),
    ("RICC-60k", "easy"),
)
QUICK_JOBS = 1_000
FULL_MACHINES, QUICK_MACHINES = 1_000, 20
FULL_JOBS, QUICK_FULL_JOBS = 10_000, 200
SEEDS, QUICK_SEEDS = 100, 5
RUN_S_MAX = 600.0
PEER_JOBS = 28_481
"""All of KTH-SP2."""


def traces() -> Path:
    """Where the logs are."""
    shared = os.environ.get("IRIAI_SHARED")
    root = Path(shared) if shared else Path(__file__).resolve().parents[2] / "shared"
    return root / "traces"


def measure_replay(name: str, policy: str, jobs_max: int) -> dict[str, object]:
    """Replay one log in this process; all of its jobs where `jobs_max` is 0."""
    from dataclasses import replace

    from iriai.sim.workload.replay import replay
    from iriai.sim.workload.settings import ReplaySettings
    from iriai.sim.workload.swf import read_swf

    began = time.perf_counter()
    log = read_swf(traces() / f"{name}.swf.gz")
    read_s = time.perf_counter() - began
    if jobs_max:
        log = replace(log, jobs=log.jobs[:jobs_max])
    began, began_cpu = time.perf_counter(), time.process_time()
    records = replay(log, ReplaySettings(policy=policy))
    elapsed_s, cpu_s = time.perf_counter() - began, time.process_time() - began_cpu
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "jobs": len(records),
        "replay_jobs_per_s": len(records) / elapsed_s,
        "jobs_per_cpu_s": len(records) / cpu_s,
        "limit_jobs_per_s": len(records) / _bare_heap_s([(r.submit_s, r.run_s) for r in log.jobs]),
        "peak_mb": peak_mb,
        "read_s": read_s,
    }


def _bare_heap_s(jobs: list[tuple[float, float]]) -> float:
    """How long nothing but the order of submissions and ends takes."""
    began = time.perf_counter()
    ends: list[float] = []
    for submit_s, run_s in jobs:
        while ends and ends[0] <= submit_s:
            heappop(ends)
        heappush(ends, submit_s + run_s)
    while ends:
        heappop(ends)
    return time.perf_counter() - began


def count_handles(machines: int, jobs: int) -> dict[str, object]:
    """A large world once, with all counted that its parts are told."""
    from harness.large_world import counted_handles, large_world, run_to_the_end

    handles = counted_handles()
    run_to_the_end(large_world(machines, jobs))
    return {"handles": handles()}


def measure_full(machines: int, jobs: int) -> dict[str, object]:
    """The same world against the clock; then a heap with as many entries, and a call for each."""
    from harness.large_world import large_world, run_to_the_end

    world = large_world(machines, jobs)
    gc.collect()
    gc.freeze()  # as the daemon does, once it is up
    began, began_cpu = time.perf_counter(), time.process_time()
    run_to_the_end(world)
    return {
        "seconds": time.perf_counter() - began,
        "cpu_s": time.process_time() - began_cpu,
        "limit_handles_per_s": _bare_events_per_s(machines),
    }


def _bare_events_per_s(machines: int) -> float:
    """Entries of a heap that each call something that does nothing, and enter the next."""
    entries = [(float(machine), 0, machine, dict) for machine in range(machines)]
    events = 200_000
    began = time.perf_counter()
    for event in range(events):
        at_s, _, _, action = heappop(entries)
        action()
        heappush(entries, (at_s + machines, 0, machines + event, action))
    return events / (time.perf_counter() - began)


def measure_seeds(first: int, seeds: int) -> dict[str, object]:
    """Small worlds with faults."""
    from iriai.sim.faults.scenario import scenario_of
    from iriai.sim.faults.search import fails

    began = time.perf_counter()
    failed = [seed for seed in range(first, first + seeds) if fails(scenario_of(seed)) is not None]
    elapsed_s = time.perf_counter() - began
    return {"failed": failed, "seeds_per_minute": seeds * 60 / elapsed_s}


def apart(what: str, *arguments: object) -> dict[str, object]:
    """Measure in a process of its own, so that its memory is its own."""
    return measured_apart(__file__, what, *arguments, run_s_max=RUN_S_MAX)


def measure_one(what: str, words: list[str]) -> dict[str, object]:
    """What `apart` asked for."""
    if what == "replay":
        return measure_replay(words[0], words[1], int(words[2]))
    measures = {"handles": count_handles, "full": measure_full, "seeds": measure_seeds}
    return measures[what](int(words[0]), int(words[1]))


class Samples:
    """What each run of each measure answered."""

    def __init__(self) -> None:
        self._answers: dict[str, list[dict[str, object]]] = {}

    def add(self, label: str, answer: dict[str, object]) -> None:
        """One run more."""
        self._answers.setdefault(label, []).append(answer)

    def of(self, label: str, figure: str) -> list[float]:
        """A figure in every run."""
        return [as_number(answer[figure]) for answer in self._answers[label]]

    def median(self, label: str, figure: str, digits: int = 0) -> float:
        """Its median."""
        return as_number(median(self.of(label, figure), digits))

    def failed(self) -> list[object]:
        """Seeds that failed in any run."""
        return [seed for answer in self._answers["seeds"] for seed in _list(answer["failed"])]


def _list(value: object) -> list[object]:
    assert isinstance(value, list)
    return value


def take(options: Options, others: peers.PeerRuns) -> Samples:
    """Every measure in turns, `runs` times."""
    samples = Samples()
    machines = options.tasks(FULL_MACHINES, QUICK_MACHINES)
    jobs = options.tasks(FULL_JOBS, QUICK_FULL_JOBS)
    seeds = options.tasks(SEEDS, QUICK_SEEDS)
    progress("counting what the parts of a large world are told")
    samples.add("handles", apart("handles", machines, jobs))
    for run in range(options.runs):
        for name, policy in REPLAYS[:1] if options.quick else REPLAYS:
            progress(f"run {run + 1} of {options.runs}: {name}, {policy}")
            jobs_max = options.tasks(0, QUICK_JOBS)
            samples.add(f"{name} {policy}", apart("replay", name, policy, jobs_max))
        progress("a large world")
        samples.add("full", apart("full", machines, jobs))
        progress("small worlds with faults")
        samples.add("seeds", apart("seeds", 1 + run * seeds, seeds))
        others.round()
    return samples


def replay_figures(samples: Samples, label: str) -> dict[str, object]:
    """What is said of one log under one policy."""
    base = f"{BASE} {label.split()[1]}"
    cost = samples.median(base, "jobs_per_cpu_s") / samples.median(label, "jobs_per_cpu_s")
    rate = samples.median(label, "replay_jobs_per_s")
    return {
        "jobs": samples.median(label, "jobs"),
        "replay_jobs_per_s": rate,
        "jobs_per_cpu_s": samples.median(label, "jobs_per_cpu_s"),
        "limit_jobs_per_s": samples.median(label, "limit_jobs_per_s"),
        "of_limit": ratio(rate, samples.median(label, "limit_jobs_per_s")),
        "peak_mb": samples.median(label, "peak_mb", 1),
        "read_s": samples.median(label, "read_s", 2),
        "cost_ratio": round(cost, 2),
        "runs": [round(each) for each in samples.of(label, "replay_jobs_per_s")],
    }


def full_figures(samples: Samples, options: Options) -> dict[str, object]:
    """What is said of the large world."""
    handles = samples.median("handles", "handles")
    rates = [round(handles / seconds) for seconds in samples.of("full", "seconds")]
    jobs = options.tasks(FULL_JOBS, QUICK_FULL_JOBS)
    return {
        "full_handles_per_s": median(rates, 0),
        "handles_per_cpu_s": round(handles / samples.median("full", "cpu_s", 3)),
        "limit_handles_per_s": samples.median("full", "limit_handles_per_s"),
        "jobs_per_s": round(jobs / samples.median("full", "seconds", 3)),
        "handles": handles,
        "handles_per_job": round(handles / jobs, 1),
        "runs": rates,
    }


def main() -> None:
    """Measure all, and print what was found."""
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(measure_one(sys.argv[2], sys.argv[3:])))
        return
    options = read_options(__doc__ or "")
    machine = machine_facts(traces())
    os.environ["IRIAI_TRACES"] = str(traces())
    chosen = peers.FOR_SIMULATION if options.peers else ()
    others = peers.PeerRuns(chosen, "throughput", PEER_JOBS)
    samples = take(options, others)
    replays = REPLAYS[:1] if options.quick else REPLAYS
    labels = [f"{name} {policy}" for name, policy in replays]
    finish(
        {
            "figures": {label: replay_figures(samples, label) for label in labels},
            "full": full_figures(samples, options),
            "full_handles_per_s": full_figures(samples, options)["full_handles_per_s"],
            "seeds_per_minute": samples.median("seeds", "seeds_per_minute"),
            "failed_seeds": samples.failed(),
            "peers": others.result("per_s"),
            "settings": {
                "order": "fifo",
                "machines": options.tasks(FULL_MACHINES, QUICK_MACHINES),
                "world_jobs": options.tasks(FULL_JOBS, QUICK_FULL_JOBS),
                "seeds_each_run": options.tasks(SEEDS, QUICK_SEEDS),
                "peer_log": BASE,
                "runs": options.runs,
            },
            "machine": machine,
        }
    )


if __name__ == "__main__":
    main()
