"""The limit: a bare loop that starts, isolates and reaps processes as iriai's launcher does.

The same program between loop and task (iriai-exec), the same control groups, made beforehand and
used again, the same user, directory and output file; and nothing else: no queue, no record, no
accounting, no answer to anybody. What iriai reaches is to be seen against this.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from harness.kept_folder import kept_folder
from harness.processes import AT_A_TIME
from harness.report import as_number, finish, machine_facts, median, progress, read_answer
from harness.task_user import make_folder, task_user

from iriai.launcher.containment.cgroups.choose import choose
from iriai.launcher.containment.container import Containment, Limits
from iriai.launcher.spawn.spawn import find_helper

WARM_UP_TASKS = 200
"""Before the clock runs: the first process in a group makes the kernel's side of it."""
PROCESSES_MAX = 4096
"""The process limit that iriai sets where a job names none."""
ENVIRONMENT = {b":PATH": b"/usr/bin:/bin"}
COMMAND = "true"
RUN_S_MAX = 120.0


def run_all(tasks: int, containers: Sequence[Containment], folder: Path) -> float:
    """Run `tasks` processes, one in each container at a time; return how many seconds it took.

    Raises:
        RuntimeError: a process did not end with 0.
    """
    helper = find_helper("auto")
    user = task_user()
    options = [*helper, f"p={os.getpid()}", f"d={folder}", "i=/dev/null"]
    if os.geteuid() == 0:
        options.append(f"u={user.pw_uid}:{user.pw_gid}:{user.pw_gid}")
    free = list(containers)
    running: dict[int, Containment] = {}
    began = time.perf_counter()
    try:
        for number in range(tasks):
            if not free:
                _reap(running, free)
            container = free.pop()
            words = [*options, *container.joins, f"o={folder}/{number}", "--", COMMAND]
            running[os.posix_spawn(helper[0], words, ENVIRONMENT)] = container
        while running:
            _reap(running, free)
    finally:
        # After a failure: a group with members in it could not be removed.
        for pid in running:
            os.waitpid(pid, 0)
    return time.perf_counter() - began


def _reap(running: dict[int, Containment], free: list[Containment]) -> None:
    pid, status, _ = os.wait4(-1, 0)
    free.append(running.pop(pid))
    if status:
        raise RuntimeError(f"a process ended with {os.waitstatus_to_exitcode(status)}")


def measure(tasks: int) -> dict[str, object]:
    """Make groups and folder, run `tasks` processes, remove both; return rate and settings."""
    choice = choose(f"iriai-limit-{os.getpid()}", "auto")
    containers = [choice.containers.acquire() for _ in range(AT_A_TIME)]
    for container in containers:
        container.prepare(Limits(cpus=1, memory_bytes=0, processes=PROCESSES_MAX))
    try:
        root = kept_folder("limit-")
        folder = make_folder(root / "output")
        run_all(WARM_UP_TASKS, containers, make_folder(root / "warm"))
        elapsed_s = run_all(tasks, containers, folder)
        found = sum(1 for _ in folder.iterdir())
    finally:
        for container in containers:
            choice.containers.release(container)
        choice.containers.close()
    if found != tasks:
        raise RuntimeError(f"only {found} of {tasks} processes left an output file")
    return {
        "limit_per_s": round(tasks / elapsed_s, 1),
        "settings": {
            "outstanding": AT_A_TIME,
            "user": task_user().pw_name,
            "control_groups": sorted(choice.places),
            "helper": Path(find_helper("auto")[-1]).name,
        },
    }


def measure_apart(tasks: int) -> dict[str, object]:
    """As `measure`, in a process of its own: small, and in whatever groups it wants to be."""
    command = [sys.executable, __file__, "--tasks", str(tasks), "--runs", "1"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=RUN_S_MAX)
    return read_answer(done.stdout)


def main() -> None:
    """Measure the limit alone."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=5, help="the median of so many runs")
    given = parser.parse_args()
    rates: list[float] = []
    settings: object = None
    for run in range(given.runs):
        if given.runs > 1:
            progress(f"limit, run {run + 1} of {given.runs}")
        answer = measure(given.tasks)
        rates.append(as_number(answer["limit_per_s"]))
        settings = answer["settings"]
    finish(
        {
            "limit_per_s": median(rates),
            "tasks": given.tasks,
            "runs": rates,
            "settings": settings,
            "machine": machine_facts(Path(tempfile.gettempdir())),
        }
    )


if __name__ == "__main__":
    main()
