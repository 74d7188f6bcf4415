"""Ray, in two ways: tasks, each placed by Ray's scheduler, and calls of actors already placed.

Calls of actors are the faster way, since nothing is scheduled any more: the caller deals them to
workers in turn. Tasks are what a batch system is to be compared with. Both are reported.
"""

import itertools
import os
from collections.abc import Callable
from pathlib import Path

from one_process import run_true
from report import WARM_UP_TASKS, answer, cpus, latencies, make_folder, parse, rate, require_outputs

# Ray reads this when it is imported.
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
import ray  # type: ignore[import-not-found]

# More than processors, since a worker waits while its process runs; with four it is slower again.
WORKERS_PER_CPU = 2
# More actors or threads make no difference that can be told from noise.
ACTORS_PER_CPU = 1
THREADS_PER_ACTOR = 4

Submit = Callable[[str], object]


class Runner:
    """An actor that runs one process a call."""

    def run(self, output_path: str) -> int:
        """Run `true` and return its exit code."""
        return run_true(output_path)


def submit_tasks() -> Submit:
    """Return how to submit a process as a Ray task."""
    submit: Submit = ray.remote(run_true).remote
    return submit


def submit_calls() -> Submit:
    """Return how to submit a process as an actor's call, dealing them out in turn."""
    make = ray.remote(Runner).options(max_concurrency=THREADS_PER_ACTOR, num_cpus=0)
    actors = [make.remote() for _ in range(ACTORS_PER_CPU * cpus())]
    turns = itertools.cycle(actors)

    def submit(output_path: str) -> object:
        return next(turns).run.remote(output_path)

    return submit


def measure(submit: Submit, kind: str, tasks: int, folder: Path) -> dict[str, float]:
    """Warm up, then measure `kind` with `tasks` tasks that write into `folder`."""
    warm = folder / "warm"
    timed = folder / "timed"
    warm.mkdir()
    timed.mkdir()
    ray.get([submit(f"{warm}/{number}") for number in range(WARM_UP_TASKS)])
    if kind == "throughput":
        figures = rate(
            tasks, lambda: ray.get([submit(f"{timed}/{number}") for number in range(tasks)])
        )
    else:
        figures = latencies(tasks, lambda number: ray.get(submit(f"{timed}/{number}")))
    require_outputs(timed, tasks)
    return figures


def main() -> None:
    """Start a private Ray on loopback, measure, and end it."""
    arguments = parse("Ray", ways=["tasks", "actors"])
    slots = WORKERS_PER_CPU * cpus()
    settings: dict[str, object] = {
        "num_cpus": slots,
        "spawn": "os.posix_spawn in a worker process, then waitpid",
        "output": "a file each",
        "include_dashboard": False,
    }
    if arguments.way == "actors":
        settings |= {"actors": ACTORS_PER_CPU * cpus(), "max_concurrency": THREADS_PER_ACTOR}
    folder = make_folder("ray-")
    ray.init(
        num_cpus=slots,
        include_dashboard=False,
        log_to_driver=False,
        _temp_dir=str(folder / "ray"),
        _node_ip_address="127.0.0.1",  # what it listens on is for loopback_only.py to limit
    )
    try:
        submit = submit_tasks() if arguments.way == "tasks" else submit_calls()
        figures = measure(submit, arguments.measure, arguments.tasks, folder)
    finally:
        ray.shutdown()
    answer(f"ray_{arguments.way}", ray.__version__, arguments.tasks, figures, settings)


if __name__ == "__main__":
    main()
