"""Tasks a second of eight real daemons in network namespaces, and of one machine alone.

`cluster_8_per_s`: an array of `true` from one home, which the broker spreads over eight machines;
a third of them accepts no connections. `alone_per_s`: the same array on one machine in a namespace,
with as many cpus as the eight have in sum. All share the processors of this host, so
`cluster_8_of_alone` is what the way costs. Needs root.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from harness.live_network import live_network
from harness.options import Options, read_options
from harness.report import finish, machine_facts, median, progress, ratio
from throughput import ARRAY_TASKS, CPUS, QUICK_TASKS, WARM_UP_TASKS, run_array

MACHINES, QUICK_MACHINES = 8, 2


def tasks_per_s(options: Options, machines: int) -> float:
    """Return the tasks a second of an array, submitted at the first of so many machines."""
    with live_network(machines, cpus=CPUS // machines) as (network, _):
        home = network.machines["m0"]
        with home.client() as client:
            run_array(client, home.work, WARM_UP_TASKS)
            return run_array(client, home.work, options.tasks(ARRAY_TASKS, QUICK_TASKS))


def main() -> None:
    """Measure both in turns, `runs` times."""
    options = read_options(__doc__ or "")
    machine = machine_facts(Path(tempfile.gettempdir()))
    machines = QUICK_MACHINES if options.quick else MACHINES
    alone: list[float] = []
    cluster: list[float] = []
    for run in range(options.runs):
        progress(f"run {run + 1} of {options.runs}: alone")
        alone.append(tasks_per_s(options, 1))
        progress(f"{machines} machines")
        cluster.append(tasks_per_s(options, machines))
    figures = {"cluster_8_per_s": median(cluster), "alone_per_s": median(alone)}
    finish(
        {
            **figures,
            "cluster_8_of_alone": ratio(figures["cluster_8_per_s"], figures["alone_per_s"]),
            "settings": {
                "machines": machines,
                "machine.cpus": CPUS // machines,
                "array_tasks": options.tasks(ARRAY_TASKS, QUICK_TASKS),
                "runs": options.runs,
            },
            "samples": {
                "cluster_8_per_s": [round(each, 1) for each in cluster],
                "alone_per_s": [round(each, 1) for each in alone],
            },
            "machine": machine,
        }
    )


if __name__ == "__main__":
    main()
