"""Limits of memory, CPU time and disk: from crossing one to the end of the task.

A task of a real launcher notes the time of each step; the crossing is the first step after which it
has more than its limit, or the last one if the kernel did not let it have more; the end is that of
its last process. `memory_s` and `cpu_s`: the slowest 1 % of all tasks, under `groups` (control
groups, goal 1 s) and `sampling` (without any, goal 2 s). `disk_s`: the same of disk, in a directory
with 10^5 other files, by the mechanism in `by`; `goal_s` is 5 with a project quota, else the
interval between walks and the time of one: `walk_s`, that of the slowest of bare walks, in the part
of the time in which walks work. Needs root.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from harness.options import Options, read_options
from harness.report import finish, machine_facts, percentile, progress
from harness.task_user import task_user

TASKS, QUICK_TASKS = 12, 2
DISK_TASKS, QUICK_DISK_TASKS = 1, 1
FILES, QUICK_FILES = 100_000, 2_000
KINDS = {"groups": "auto", "sampling": "none"}
QUOTA_GOAL_S = 5.0
WAIT_S = 300.0
"""The longest wait for a task, which makes its files first."""
MEMORY_BYTES = 64 << 20
CPU_S = 0.3
CPU_BEFORE_S = 0.05
"""More than a task has used before it is a program of its own, which counts too."""
DISK_BYTES = 16 << 20
NOTE = """
import json, os, sys, time
def note(number):
    with open("new", "w") as file: json.dump(number, file)
    os.rename("new", "crossed")
"""
MEMORY = f"""{NOTE}
kept, last = [], 0
page = os.sysconf("SC_PAGE_SIZE")
while True:
    resident = int(open("/proc/self/statm").read().split()[1]) * page
    if resident <= {MEMORY_BYTES}:
        note(time.monotonic())
    if resident > {MEMORY_BYTES + (16 << 20)}:
        time.sleep(600)
    kept.append(bytearray(b"x") * (1 << 20))
"""
CPU = f"""{NOTE}
while time.process_time() < {CPU_S - CPU_BEFORE_S}: pass
note(time.monotonic())
while True: pass
"""
DISK = f"""{NOTE}
work = os.getcwd()
os.chdir(os.environ["TMPDIR"])
for number in range(int(sys.argv[1])):
    if number % 1000 == 0:
        os.mkdir(str(number)); folder = str(number)
    os.close(os.open(f"{{folder}}/{{number}}", os.O_CREAT | os.O_WRONLY))
with open("large", "wb", 0) as file:
    for _ in range({(DISK_BYTES >> 20) + 1}):
        file.write(b"x" * (1 << 20))
    now_s = time.monotonic()
os.chdir(work)
note(now_s)
time.sleep(600)
"""


class Bench:
    """One launcher."""

    def __init__(self, isolation: str) -> None:
        sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
        self._kit: Any = importlib.import_module("tests.launcher.harness")
        model: Any = importlib.import_module("iriai.model.resources")
        self.resources = model.Resources
        vars(self._kit)["WAIT_S"] = WAIT_S
        variant = self._kit.Variant(isolation, isolation=isolation)
        self._machine = self._kit.Machine(variant, task_user().pw_name)
        self.lab = self._kit.Lab(self._machine.start())

    def took_s(self, cause: str, program: str, *arguments: str, **limits: object) -> float:
        """Return the time from the crossing to the end of one task."""
        words = (self._kit.PYTHON, "-c", program, *arguments)
        folder = self._machine.new_folder()
        spec = self._machine.spec(*words, working_directory=str(folder), output="", **limits)
        end = self.lab.end_of(spec)
        if end.cause != cause:
            raise RuntimeError(f"a task ended as {end.cause}, not as {cause}: {end.message}")
        ended_s = time.monotonic() - (time.time() - end.ended_wall_s)
        return float(ended_s - json.loads((folder / "crossed").read_text()))

    def disk_by(self) -> str:
        """Return how disk is limited."""
        rows = self.lab.link.attach().enforcement
        return str(next(each.by for each in rows if each.limit == "disk"))

    def close(self) -> None:
        """End the launcher."""
        self.lab.close()
        self._machine.close()


def bare_walk_s(files: int) -> float:
    """Return how long a walk through so many files takes without pauses."""
    walks: Any = importlib.import_module("iriai.launcher.directories.disk_use")
    with tempfile.TemporaryDirectory(prefix="iriai-limits-", dir="/var/tmp") as name:
        for number in range(files):
            folder = Path(name, str(number // 1000))
            if number % 1000 == 0:
                folder.mkdir()
            (folder / str(number)).touch()
        fd = os.open(name, os.O_RDONLY)
        began_s = time.monotonic()
        walk = walks.DiskWalk(fd)
        while not walk.go_on():
            pass
        return time.monotonic() - began_s


def measure(options: Options, samples: dict[str, list[float]]) -> str:
    """Add the samples of one run; return how disk is limited."""
    by = ""
    for kind, isolation in KINDS.items():
        bench = Bench(isolation)
        try:
            for _ in range(options.tasks(TASKS, QUICK_TASKS)):
                memory = bench.resources(memory_bytes=MEMORY_BYTES)
                took_s = bench.took_s("memory-limit", MEMORY, resources=memory)
                samples.setdefault(f"{kind}.memory_s", []).append(took_s)
                took_s = bench.took_s("cpu-limit", CPU, cpu_limit_s=CPU_S)
                samples.setdefault(f"{kind}.cpu_s", []).append(took_s)
            if kind == "groups":
                by = bench.disk_by()
                files = str(options.tasks(FILES, QUICK_FILES))
                for _ in range(options.tasks(DISK_TASKS, QUICK_DISK_TASKS)):
                    disk = bench.resources(named=(("disk", DISK_BYTES),))
                    took_s = bench.took_s("disk-limit", DISK, files, resources=disk)
                    samples.setdefault("disk_s", []).append(took_s)
                samples.setdefault("walk_s", []).append(bare_walk_s(int(files)))
        finally:
            bench.close()
    return by


def main() -> None:
    """Measure each in turns."""
    options = read_options(__doc__ or "")
    facts = machine_facts(Path(tempfile.gettempdir()))
    samples: dict[str, list[float]] = {}
    by = ""
    for run in range(options.runs):
        by = measure(options, samples)
        progress(
            f"run {run + 1}: { ({name: round(max(each), 2) for name, each in samples.items()}) }"
        )
    p99 = {name: _p99(each) for name, each in samples.items()}
    limits: Any = importlib.import_module("iriai.launcher.tasks.disk_limits")
    walk_s = p99["walk_s"] / limits.WALK_PART
    goal_s = limits.WALK_INTERVAL_S + walk_s if by.startswith("walks") else QUOTA_GOAL_S
    groups = {name: p99[f"groups.{name}"] for name in ("memory_s", "cpu_s")}
    sampling = {name: p99[f"sampling.{name}"] for name in ("memory_s", "cpu_s")}
    disk = {"by": by, "disk_s": p99["disk_s"], "walk_s": round(walk_s, 2)}
    disk["goal_s"] = round(goal_s, 2)
    answer = {"groups": groups, "sampling": sampling, "disk": disk}
    finish({"benchmark": "limits", **answer, "machine": facts})


def _p99(samples: list[float]) -> float:
    return round(percentile(samples, 99) if len(samples) > 1 else samples[0], 3)


if __name__ == "__main__":
    main()
