"""Tasks a second: iriai, a bare loop that does the same to its processes, and other systems.

`array_per_s`: an array of `true`, from its submission until its last end is known to the client.
`single_per_s`: as many jobs of one task as SINGLE_JOBS, handed in one after the other through one
connection, each durable before the next. `single_pipelined_per_s`: the same without waiting for
each answer. `back_ends`: the array again, through a front end with 1, 2 and 4 back ends on this
host, which in sum give away as many cpus as the machine alone. As root the tasks run as another
user, with the default isolation; each has its own output file; every attempt and end is durable.
`limit_per_s`: see limit.py. `peers`: see peers/.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from harness import peers
from harness.options import Options, read_options
from harness.private_cluster import PrivateCluster
from harness.private_iriai import PrivateIriai
from harness.processes import AT_A_TIME
from harness.report import as_number, finish, machine_facts, median, progress, ratio

from iriai.client import Client, draft
from iriai.model.problem import Problem
from iriai.model.state import EndCause
from iriai.wire.requests import JobDraft, Submitted

ARRAY_TASKS = 10_000
SINGLE_JOBS = 2_000
QUICK_TASKS = 200
BACK_ENDS = (1, 2, 4)
WARM_UP_TASKS = 200
"""As for the peers: the first tasks make control groups and load code."""
CPUS = AT_A_TIME
"""What the machine is configured to give away: as many processes at a time as the limit has. The
peers, too, were given more workers than there are processors where that made them faster."""
ENVIRONMENT = {"PATH": "/usr/bin:/bin"}


def job(folder: Path, tasks: int | None = None) -> JobDraft:
    """Return a job of `true`: an array of `tasks`, or a single task."""
    array = None if tasks is None else ((0, tasks - 1, 1),)
    return draft(["true"], cwd=folder, env=ENVIRONMENT, array=array)


def await_success(client: Client, ids: Sequence[str]) -> None:
    """Wait until all have finished; raise RuntimeError if one did not complete."""
    failed = [each for each in client.wait(ids) if each.cause != EndCause.COMPLETED]
    if failed:
        raise RuntimeError(f"{len(failed)} jobs did not complete, the first: {failed[0]}")


def run_array(client: Client, folder: Path, tasks: int) -> float:
    """Run an array and return tasks a second."""
    began = time.perf_counter()
    await_success(client, [client.submit(job(folder, tasks)).id])
    return tasks / (time.perf_counter() - began)


def run_singles(client: Client, folder: Path, jobs: int) -> float:
    """Run single jobs, each handed in when the one before was accepted; return jobs a second."""
    one = job(folder)
    began = time.perf_counter()
    await_success(client, [client.submit(one).id for _ in range(jobs)])
    return jobs / (time.perf_counter() - began)


def run_pipelined(client: Client, folder: Path, jobs: int) -> float:
    """Run single jobs, handed in without waiting for answers; return jobs a second."""
    one = job(folder)
    began = time.perf_counter()
    await_success(client, [accepted(each) for each in client.submit_many([one] * jobs)])
    return jobs / (time.perf_counter() - began)


def accepted(answer: Submitted | Problem) -> str:
    """Return the id of a job that was handed in; raise the problem where it was not."""
    if isinstance(answer, Problem):
        raise answer
    return answer.id


def measure_iriai(options: Options) -> dict[str, float]:
    """Measure the three ways once, with a fresh state directory."""
    array_tasks = options.tasks(ARRAY_TASKS, QUICK_TASKS)
    single_jobs = options.tasks(SINGLE_JOBS, QUICK_TASKS)

    def work(client: Client) -> dict[str, float]:
        run_array(client, iriai.work, WARM_UP_TASKS)
        return {
            "array_per_s": run_array(client, iriai.work, array_tasks),
            "single_per_s": run_singles(client, iriai.work, single_jobs),
            "single_pipelined_per_s": run_pipelined(client, iriai.work, single_jobs),
        }

    with PrivateIriai(CPUS) as iriai:
        rates = iriai.as_user(work)
        files = sum(1 for _ in iriai.work.iterdir())
    if files != WARM_UP_TASKS + array_tasks + 2 * single_jobs:
        raise RuntimeError(f"{files} output files, not one for each task")
    return rates


def measure_back_ends(options: Options, count: int) -> float:
    """Return the tasks a second of an array that a front end spreads over `count` back ends."""
    array_tasks = options.tasks(ARRAY_TASKS, QUICK_TASKS)

    def work(client: Client) -> float:
        run_array(client, cluster.work, WARM_UP_TASKS)
        return run_array(client, cluster.work, array_tasks)

    with PrivateCluster(count, CPUS // count) as cluster:
        rate = cluster.as_user(work)
        files = sum(1 for _ in cluster.work.iterdir())
    if files != WARM_UP_TASKS + array_tasks:
        raise RuntimeError(f"{files} output files, not one for each task")
    return rate


def main() -> None:
    """Measure all in turns, `runs` times."""
    options = read_options(__doc__ or "")
    array_tasks = options.tasks(ARRAY_TASKS, QUICK_TASKS)
    machine = machine_facts(Path(tempfile.gettempdir()))
    chosen = peers.FOR_THROUGHPUT if options.peers else ()
    others = peers.PeerRuns(chosen, "throughput", array_tasks)
    counts = BACK_ENDS[1:2] if options.quick else BACK_ENDS
    samples: dict[str, list[float]] = {}
    bare: dict[str, object] = {}
    for run in range(options.runs):
        progress(f"run {run + 1} of {options.runs}: iriai")
        for name, rate in measure_iriai(options).items():
            samples.setdefault(name, []).append(rate)
        for count in counts:
            progress(f"{count} back ends")
            rate = measure_back_ends(options, count)
            samples.setdefault(f"back_ends_{count}_per_s", []).append(rate)
        progress("the limit")
        import limit  # of this very commit, while pair.py measures others with this file

        bare = limit.measure_apart(array_tasks)
        samples.setdefault("limit_per_s", []).append(as_number(bare["limit_per_s"]))
        others.round()
    figures = {name: median(values) for name, values in samples.items()}
    finish(
        {
            **figures,
            "back_ends": {str(count): figures[f"back_ends_{count}_per_s"] for count in counts},
            "back_ends_of_array": {
                str(count): ratio(figures[f"back_ends_{count}_per_s"], figures["array_per_s"])
                for count in counts
            },
            "array_of_limit": ratio(figures["array_per_s"], figures["limit_per_s"]),
            "single_of_array": ratio(figures["single_per_s"], figures["array_per_s"]),
            "array_of_best_peer": ratio(figures["array_per_s"], others.best_per_s()),
            "peers": others.result("per_s"),
            "settings": {
                "array_tasks": array_tasks,
                "single_jobs": options.tasks(SINGLE_JOBS, QUICK_TASKS),
                "machine.cpus": CPUS,
                "limit": bare["settings"],
                "runs": options.runs,
            },
            "samples": {
                name: [round(each, 1) for each in values] for name, values in samples.items()
            },
            "machine": machine,
        }
    )


if __name__ == "__main__":
    main()
