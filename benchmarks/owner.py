"""Owners: what they feel of background tasks, and how soon these give way.

Probes of an owner run alone, again, and beside two tasks a processor that compute and write:
`plain`, `nice` (19), `idle` (SCHED_IDLE and `ionice -c3`), `lowered` (by the launcher, in the idle
class) and `suspended`; for control groups of both versions and without any. `share`: the processor
time of the owner's busy processes as a part of that alone. `wake_p99_ms`: how late a process is
that wakes each 10 ms and computes 2 ms. `slowdown_percent`: how much longer than alone the probes
take (these wakes, a compiler, a start with much memory, cold reads, fsync), the median over them;
`noise_percent`: the same of `again`. `freeze_p50_ms`, `freeze_p99_ms`: from a key to the last
instruction of 200 busy lowered tasks, while two processes write and sync and nobody reads what the
launcher tells. `emptied_s`: from the order to end lowered tasks of 200 MB each, beside a busy
owner, to the end of the last. `freed_1gb_s`: from the order to give the memory back
until a task of 1 GiB that stands has less than a tenth of it, with swap on a file. Needs root and a
C compiler; where the kernel's version 2 has no controller of processors, that is named.
"""

from __future__ import annotations

import importlib
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness.freezers import KINDS, compile_program
from harness.options import Options, read_options
from harness.owner_probes import OwnerProbes, busy_owner
from harness.report import Figures, finish, machine_facts, percentile, progress, ratio
from harness.swap_file import swap_file
from harness.task_user import task_user
from suspend import MISSED_S, NOTE, SETTLE_S, Times, disk_load

TASKS_PER_CPU = 2
FREEZE_TASKS, QUICK_FREEZE_TASKS = 200, 8
SIGNS, QUICK_SIGNS = 12, 2
SIGN_REST_S = 1.2
"""Between two keys: the second of two within a second is told later."""
FREED_BYTES, QUICK_FREED_BYTES = 1 << 30, 64 << 20
LEFT_PART = 0.1
HELD_BYTES, QUICK_HELD_BYTES = 200 << 20, 20 << 20
NO_CONTROLLER = "the kernel's version 2 has no controller of processors here: sessions are lowered"
BUSY = r"""
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
enum { PIECE = 1 << 20, PIECES = 64, LOOK = 20000000, PAGE = 4096 };
int main(int count, char **words)
{
    static char piece[PIECE];
    char began[256];
    long bytes = atol(words[1]);
    volatile char *held = malloc(bytes + 1);
    for (long each = 0; each < bytes; each += PAGE)
        held[each] = 1;
    int fd = open(words[2], O_RDWR | O_CREAT, 0600);
    snprintf(began, sizeof began, "%s.began", words[2]);
    close(open(began, O_RDWR | O_CREAT, 0600));
    for (volatile uint64_t number = 1;; number++)
        if (number % LOOK == 0 && pwrite(fd, piece, PIECE, number / LOOK % PIECES * PIECE) < 0)
            return 1;
}
"""
WAIT_S = 300.0
"""In the idle class the begin of a task takes long, where others are busy."""
WAYS: dict[str, tuple[str, ...]] = {
    "plain": (),
    "nice": ("nice", "-n", "19"),
    "idle": ("chrt", "--idle", "0", "ionice", "-c3"),
    "lowered": (),
    "suspended": (),
}
"""By name: what stands before the command of a task."""
TIMED = "wake_s", "compile_s", "memory_s", "cold_read_s", "fsync_s"


class Bench:
    """One launcher with tasks on a machine with an owner."""

    def __init__(self, kind: str) -> None:
        sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
        self._kit: Any = importlib.import_module("tests.launcher.harness")
        self._words: Any = importlib.import_module("iriai.launcher.contract.messages")
        self._causes: Any = importlib.import_module("iriai.model.state")
        self._reasons: Any = importlib.import_module("iriai.model.suspension")
        desks: Any = importlib.import_module("tests.launcher.owner.desk")
        variant = self._kit.Variant(kind, isolation=kind)
        self.machine = self._kit.Machine(variant, task_user().pw_name)
        self.machine.devices = self.machine.directory / "dev"
        self.desk = desks.Desk(self.machine.devices)
        self.desk.add_device()
        self._lab = self._kit.Lab(self.machine.start())
        self.tasks: list[Any] = []

    @property
    def folder(self) -> Path:
        """Where tasks have their files: nothing else of /tmp is there for them."""
        return Path(self._lab.folder)

    def order(self, *, lowers: bool, suspends: bool = False, are_over: bool = False) -> None:
        """Give a standing order; with `are_over`, the signs so far are over."""
        link = self._lab.link
        if not are_over:
            link.watch_owner(suspends=suspends, lowers=lowers)
        else:
            signs = link.seen[-1].signs
            link.watch_owner(suspends=suspends, lowers=lowers, signs=signs, are_over=True)
        self.machine.wait_until_read(link)

    def begin(self, count: int, *words: str, wait: Callable[[int], object] | None = None) -> None:
        """Start tasks, each with its number behind the words; returns once all are at work."""
        specs = [self._lab.spec(*words, str(number), output="") for number in range(count)]
        self.tasks = [self._lab.launch(each) for each in specs]
        for number, each in enumerate(self.tasks):
            self._lab.link.pid_of(each)
            end_s = time.monotonic() + WAIT_S
            while wait is not None and not wait(number):
                if time.monotonic() > end_s:
                    raise RuntimeError("a task does not begin")
                time.sleep(0.01)

    def begin_busy(self, program: Path, before: tuple[str, ...], held_bytes: int) -> None:
        """Start two tasks a processor, which compute, write and hold memory."""
        count = TASKS_PER_CPU * len(os.sched_getaffinity(0))
        words = (*before, str(shutil.copy(program, self.folder)), str(held_bytes))
        for path in self.folder.glob("*.began"):
            path.unlink()
        self.begin(count, *words, wait=lambda number: (self.folder / f"{number}.began").exists())

    def freeze(self) -> None:
        """Suspend all tasks."""
        for each in self.tasks:
            self._lab.link.freeze(each, self._reasons.SuspendReason.OWNER)

    def end(self) -> float:
        """End all tasks at once; return the seconds until the last has ended."""
        began_s = time.monotonic()
        cause = self._causes.EndCause.CANCELLED
        self._lab.link.send(self._words.Terminate(tuple(self.tasks), cause, 0.0))
        for each in self.tasks:
            self._lab.link.exit_of(each)
        return time.monotonic() - began_s

    def free(self, held_bytes: int) -> float:
        """Give the memory of the one task back; return the seconds until it has little left."""
        link, [task] = self._lab.link, self.tasks
        self.freeze()
        time.sleep(SETTLE_S)
        pages = Path(f"/proc/{link.pid_of(task)}/statm")
        size = os.sysconf("SC_PAGE_SIZE")
        began_s = time.monotonic()
        link.watch_owner(suspends=False, reclaimed=(task,))
        while int(pages.read_text().split()[1]) * size > held_bytes * LEFT_PART:
            if time.monotonic() > began_s + WAIT_S:
                raise RuntimeError("the memory stays with its task")
            time.sleep(0.01)
        return time.monotonic() - began_s

    def sign(self, times: Times) -> float:
        """Press a key; return the milliseconds until the last instruction of any task."""
        time.sleep(SIGN_REST_S)
        began_ns = time.monotonic_ns()
        self.desk.press()
        time.sleep(SETTLE_S)
        seen_s = time.monotonic()
        time.sleep(SETTLE_S)
        last_ns = max(times.last_ns())
        if last_ns / 1e9 > seen_s + MISSED_S:
            raise RuntimeError("a task runs although somebody is at the desk")
        self.machine.wait_until_read(self._lab.link)
        return max(0.0, (last_ns - began_ns) / 1e6)

    def close(self) -> None:
        """End the launcher with all its tasks."""
        self._lab.close()
        self.machine.close()
        self.desk.close()


@contextmanager
def launched(kind: str) -> Iterator[Bench]:
    """A launcher of its own."""
    bench = Bench(kind)
    try:
        yield bench
    finally:
        bench.close()


def slowdown_percent(probes: dict[str, float], alone: dict[str, float]) -> float:
    """Return by how much the probes take longer than alone, the median over them."""
    return 100.0 * (statistics.median(probes[name] / alone[name] for name in TIMED) - 1.0)


def measure_ways(
    kind: str, program: Path, probes: OwnerProbes, figures: dict[str, Figures]
) -> None:
    """Measure the probes alone, again, and beside tasks in each way."""
    alone, again = probes.measure(), probes.measure()
    figures["alone"].add("wake_p99_ms", alone["wake_p99_ms"])
    noise = max(abs(again[name] / alone[name] - 1.0) for name in TIMED)
    figures["alone"].add("noise_percent", abs(slowdown_percent(again, alone)))
    figures["alone"].add("noise_max_percent", 100.0 * noise)
    for way, before in WAYS.items():
        with launched(kind) as bench:
            bench.order(lowers=way in ("lowered", "suspended"))
            bench.begin_busy(program, before, 0)
            if way == "suspended":
                bench.freeze()
            seen = probes.measure()
            bench.end()
        own = figures[way]
        own.add("share", ratio(seen["cpu_s"], alone["cpu_s"]) or 0.0)
        own.add("wake_p99_ms", seen["wake_p99_ms"])
        own.add("slowdown_percent", slowdown_percent(seen, alone))
        for name in TIMED:
            own.add(f"{name.removesuffix('_s')}_percent", 100.0 * (seen[name] / alone[name] - 1.0))


def measure_freezes(kind: str, program: Path, options: Options, figures: Figures) -> None:
    """Measure from a key to the last instruction of lowered tasks."""
    tasks = options.tasks(FREEZE_TASKS, QUICK_FREEZE_TASKS)
    with tempfile.TemporaryDirectory(prefix="iriai-owner-") as name, launched(kind) as bench:
        times = Times(bench.folder / "times", tasks)
        bench.order(lowers=True)
        # The number comes last; the program wants it before the number of tasks.
        script = f'exec "$0" "{times.path}" "$1" {tasks}'
        bench.begin(tasks, "sh", "-c", script, str(shutil.copy(program, bench.folder)))
        times.until(times.last_ns)
        taken = []
        with disk_load(Path(name)):
            for _ in range(options.tasks(SIGNS, QUICK_SIGNS)):
                bench.order(lowers=True, suspends=True, are_over=True)
                times.clear()
                times.until(times.first_ns)
                taken.append(bench.sign(times))
        bench.order(lowers=True, are_over=True)
        bench.end()
    figures.add("freeze_p50_ms", percentile(taken, 50))
    figures.add("freeze_p99_ms", percentile(taken, 99))


def measure_end(kind: str, program: Path, options: Options, figures: Figures) -> None:
    """Measure how soon lowered tasks are gone beside a busy owner."""
    with launched(kind) as bench:
        bench.order(lowers=True)
        bench.begin_busy(program, (), options.tasks(HELD_BYTES, QUICK_HELD_BYTES))
        with busy_owner():
            time.sleep(0.5)
            figures.add("emptied_s", bench.end())


def measure_freed(kind: str, program: Path, options: Options, figures: Figures) -> None:
    """Measure how soon the memory of a task that stands is free."""
    held_bytes = options.tasks(FREED_BYTES, QUICK_FREED_BYTES)
    with swap_file(2 * held_bytes), launched(kind) as bench:
        bench.order(lowers=False)
        words = (str(shutil.copy(program, bench.folder)), str(held_bytes))
        bench.begin(1, *words, wait=lambda number: (bench.folder / f"{number}.began").exists())
        figures.add("freed_1gb_s", bench.free(held_bytes) * (FREED_BYTES / held_bytes))
        bench.end()


def has_controller(kind: str) -> bool:
    """Return whether groups of this version divide processor time."""
    path = Path("/sys/fs/cgroup/cgroup.controllers")
    path = path if path.exists() else Path("/sys/fs/cgroup/unified/cgroup.controllers")
    return kind != "v2" or (path.exists() and "cpu" in path.read_text().split())


def main() -> None:
    """Measure each way, in turns."""
    options = read_options(__doc__ or "")
    facts = machine_facts(Path(tempfile.gettempdir()))
    ways = {kind: {way: Figures(3) for way in ("alone", *WAYS)} for kind in KINDS}
    giving = {kind: Figures(2) for kind in KINDS}
    with tempfile.TemporaryDirectory(prefix="iriai-owner-") as name:
        Path(name).chmod(0o755)
        note, busy = (Path(name) / each for each in ("note", "busy"))
        folder = Path(name) / "probes"
        for each in (note, busy, folder):
            each.mkdir(mode=0o755)
        noting, working = compile_program(note, NOTE), compile_program(busy, BUSY)
        probes = OwnerProbes(folder, is_quick=options.quick)
        for run in range(options.runs):
            for kind in KINDS:
                if has_controller(kind):
                    measure_ways(kind, working, probes, ways[kind])
                measure_freezes(kind, noting, options, giving[kind])
                measure_end(kind, working, options, giving[kind])
                measure_freed(kind, working, options, giving[kind])
                progress(f"run {run + 1}, {kind}: {giving[kind].answer()}")
    answers: dict[str, object] = {}
    for kind in KINDS:
        rows: dict[str, object] = {way: each.answer() for way, each in ways[kind].items()}
        if not has_controller(kind):
            rows = {"not_measured": NO_CONTROLLER}
        answers[kind] = {**rows, **giving[kind].answer()}
    finish({"benchmark": "owner", **answers, "machine": facts})


if __name__ == "__main__":
    main()
