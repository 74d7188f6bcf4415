"""HyperQueue as its wheel on PyPI gives it: server and workers are threads of this process.

The wheel has no `hq` program, so there is no journal, and tasks are forked from this process, which
holds the server too: a stand-alone worker would be faster. The setting is named in the answer.

The wheel's client looks once a second whether a job has ended. So that this does not count against
it, the clock stops when the last task opened its output; and latency is not measured.
"""

import os
import time
from importlib.metadata import version
from pathlib import Path

from hyperqueue import Client, Job, LocalCluster  # type: ignore[import-not-found]
from hyperqueue.cluster import WorkerConfig  # type: ignore[import-not-found]
from one_process import COMMAND
from report import WARM_UP_TASKS, answer, cpus, make_folder, parse, require_outputs

# Two workers are the quickest of 1 to 8 on two processors; more cores than processors gain nothing.
WORKERS = 2


def job_of(tasks: int, folder: Path) -> Job:
    """Return a job of `tasks` processes, each with its own output file in `folder`."""
    folder.mkdir()
    job = Job(default_workdir=folder)
    for number in range(tasks):
        job.program([COMMAND], stdout=f"{folder}/{number}", stderr=None)
    return job


def run(client: Client, job: Job) -> None:
    """Submit `job` and wait until all its tasks have ended; raise if one failed."""
    client.wait_for_jobs([client.submit(job)])


def measure(client: Client, tasks: int, folder: Path) -> dict[str, float]:
    """Warm up, then run `tasks` tasks that write into `folder`, and return their rate."""
    run(client, job_of(WARM_UP_TASKS, folder / "warm"))
    timed = folder / "timed"
    job = job_of(tasks, timed)
    began = time.time()
    run(client, job)
    require_outputs(timed, tasks)
    elapsed_s = max(each.stat().st_mtime for each in timed.iterdir()) - began
    return {"per_s": round(tasks / elapsed_s, 1), "elapsed_s": round(elapsed_s, 3)}


def main() -> None:
    """Start a private server with its workers, measure, and end it."""
    arguments = parse("HyperQueue", measures=("throughput",))
    # Its progress bar would write to the terminal while the clock runs.
    os.environ["TQDM_DISABLE"] = "1"
    folder = make_folder("hq-")
    with LocalCluster(server_dir=str(folder / "server")) as cluster:
        for _ in range(WORKERS):
            cluster.start_worker(WorkerConfig(cores=cpus()))
        figures = measure(cluster.client(), arguments.tasks, folder)
    settings: dict[str, object] = {
        "workers": WORKERS,
        "cores_per_worker": cpus(),
        "spawn": "fork by the wheel, server and workers in one process",
        "output": "a file each",
        "journal": False,
        "clock": "to the last output opened; the client looks once a second",
    }
    answer("hyperqueue", version("hyperqueue"), arguments.tasks, figures, settings)


if __name__ == "__main__":
    main()
