"""Dask distributed: a local cluster of worker processes, each with threads that run a process."""

from pathlib import Path

import distributed  # type: ignore[import-not-found]
from one_process import run_true
from report import WARM_UP_TASKS, answer, cpus, latencies, make_folder, parse, rate, require_outputs

# The quickest of 1 to 4 workers with 1 to 16 threads each on two processors.
WORKERS_PER_CPU = 1
THREADS_PER_WORKER = 16


def measure(client: distributed.Client, kind: str, tasks: int, folder: Path) -> dict[str, float]:
    """Warm up, then measure `kind` with `tasks` tasks that write into `folder`."""
    warm = folder / "warm"
    timed = folder / "timed"
    warm.mkdir()
    timed.mkdir()
    client.gather(client.map(run_true, [f"{warm}/{i}" for i in range(WARM_UP_TASKS)], pure=False))
    if kind == "throughput":
        paths = [f"{timed}/{number}" for number in range(tasks)]
        figures = rate(tasks, lambda: client.gather(client.map(run_true, paths, pure=False)))
    else:
        figures = latencies(
            tasks,
            lambda number: client.submit(run_true, f"{timed}/{number}", pure=False).result(),
        )
    require_outputs(timed, tasks)
    return figures


def main() -> None:
    """Start a private Dask cluster on loopback, measure, and end it."""
    arguments = parse("Dask distributed")
    workers = WORKERS_PER_CPU * cpus()
    folder = make_folder("dask-")
    cluster = distributed.LocalCluster(
        n_workers=workers,
        threads_per_worker=THREADS_PER_WORKER,
        processes=True,
        host="127.0.0.1",
        dashboard_address=None,
        local_directory=str(folder / "dask"),
    )
    with cluster, distributed.Client(cluster) as client:
        figures = measure(client, arguments.measure, arguments.tasks, folder)
    settings: dict[str, object] = {
        "workers": workers,
        "threads_per_worker": THREADS_PER_WORKER,
        "processes": True,
        "spawn": "os.posix_spawn in a worker process, then waitpid",
        "output": "a file each",
    }
    answer("dask", distributed.__version__, arguments.tasks, figures, settings)


if __name__ == "__main__":
    main()
