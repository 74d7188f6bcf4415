"""What every peer program is asked and how it answers: arguments in, one JSON object out.

A program is called with a measure (`throughput` or `latency`) and a number of tasks, and prints a
JSON object on its last line: `per_s` or `p50_ms` and `p99_ms`, and the settings it ran with.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

# Started and thrown away before the clock runs: workers start late, and first calls load code.
WARM_UP_TASKS = 200


MEASURES = ("throughput", "latency")
FOLDER_VARIABLE = "IRIAI_BENCHMARK_FOLDER"
"""Names the folder of the benchmark, which stays until all of it has ended: a file system may be
slow to make files where many were deleted a moment ago."""


def make_folder(prefix: str) -> Path:
    """Make a folder for this peer in that of the benchmark, whose path is short."""
    return Path(tempfile.mkdtemp(prefix=prefix, dir=os.environ.get(FOLDER_VARIABLE)))


def parse(
    name: str, ways: Sequence[str] = (), measures: Sequence[str] = MEASURES
) -> argparse.Namespace:
    """Read `measure`, `tasks` and, where the peer can do it in several ways, `way`."""
    parser = argparse.ArgumentParser(description=f"Measure {name} with real processes.")
    parser.add_argument("measure", choices=measures)
    parser.add_argument("--tasks", type=int, default=10_000)
    if ways:
        parser.add_argument("--way", choices=ways, default=ways[0])
    return parser.parse_args()


def cpus() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0))


def rate(tasks: int, run_all: Callable[[], object]) -> dict[str, float]:
    """Time `run_all`, which runs `tasks` tasks, and return tasks a second."""
    began = time.perf_counter()
    run_all()
    elapsed_s = time.perf_counter() - began
    return {"per_s": round(tasks / elapsed_s, 1), "elapsed_s": round(elapsed_s, 3)}


def latencies(tasks: int, run_one: Callable[[int], object]) -> dict[str, float]:
    """Time `run_one(number)` for each task, one after the other; return percentiles in ms."""
    times_ms = []
    for number in range(tasks):
        began = time.perf_counter()
        run_one(number)
        times_ms.append((time.perf_counter() - began) * 1000)
    percentiles = statistics.quantiles(times_ms, n=100, method="inclusive")
    return {"p50_ms": round(percentiles[49], 3), "p99_ms": round(percentiles[98], 3)}


def require_outputs(folder: Path, tasks: int) -> None:
    """Raise RuntimeError unless `folder` holds a file for each of `tasks` tasks or more.

    A rate counts only if every task ran; the files are the evidence.
    """
    found = sum(1 for _ in folder.iterdir())
    if found < tasks:
        raise RuntimeError(f"only {found} of {tasks} tasks left an output file")


def answer(
    peer: str, version: str, tasks: int, figures: dict[str, float], settings: dict[str, object]
) -> None:
    """Print the JSON object a peer program ends with."""
    common = {"peer": peer, "version": version, "tasks": tasks}
    kept = {"durability": "none", "run_as": "the caller", "isolation": "none"}
    print(json.dumps({**common, **figures, "settings": {**settings, **kept}}), flush=True)
