"""Suspension: from the order to the last instruction of 200 busy tasks, in each way to freeze.

Each task is one process, which stores the time in shared memory as fast as it can: its last
instruction, and the first after a thaw, are known to a microsecond. Two processes write and sync
files meanwhile. Under `v2`, `v1` and `none` (signals): `freeze_p99_ms`, from sending `Freeze` of
all to a real launcher until none executes anything, the slowest one of the 200, of 99 % of the
orders; the goal is 100 ms. `first_ms`: of the first order of a launcher, which makes the groups.
`thaw_p99_ms`: from sending the opposite until each has executed something, of 99 % of all
processes; 200 of them have to take turns. `limit_ms` and `thaw_limit_ms`: the same where this
program writes to the same files, or sends the signals, without a launcher. Needs root and a C
compiler.
"""

from __future__ import annotations

import importlib
import mmap
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from harness.freezers import FREEZERS, KINDS, compile_program
from harness.options import Options, read_options
from harness.report import Figures, finish, machine_facts, percentile, progress
from harness.task_user import task_user

TASKS, QUICK_TASKS = 200, 8
ORDERS, QUICK_ORDERS = 10, 3
"""Of a launcher, after the first."""
RUNNING_S = 0.3
"""Between a thaw and the next order."""
SETTLE_S = 0.2
"""After the answer, before the times are read: whatever runs by then has been missed."""
MISSED_S = 0.05
WAIT_S = 120.0
NOTE = r"""
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
enum { AWAY_NS = 1000000 };
int main(int count, char **words)
{
    int fd = open(words[1], O_RDWR);
    size_t bytes = (size_t)atoi(words[3]) * 16;
    volatile int64_t *shared = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    volatile int64_t *own = shared + 2 * atoi(words[2]);
    if (fd < 0 || shared == MAP_FAILED)
        return 1;
    for (;;) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        int64_t now_ns = now.tv_sec * 1000000000 + now.tv_nsec;
        if (!own[1] && now_ns - own[0] > AWAY_NS)
            own[1] = now_ns; /* the first instruction since the reader cleared this */
        own[0] = now_ns;
    }
}
"""
WRITES = """
import os, sys
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
while True:
    os.pwrite(fd, bytes(1 << 20), 0)
    os.fdatasync(fd)
"""


class Times:
    """What all tasks store: the last instruction of each, and the first after `clear`."""

    def __init__(self, path: Path, tasks: int) -> None:
        path.write_bytes(bytes(16 * tasks))
        path.chmod(0o666)
        self.path, self.tasks = path, tasks
        with path.open("r+b") as file:
            self._shared = mmap.mmap(file.fileno(), 16 * tasks)

    def last_ns(self) -> list[int]:
        """Return the last instruction of each."""
        return list(struct.unpack(f"={2 * self.tasks}q", self._shared[:])[::2])

    def first_ns(self) -> list[int]:
        """Return the first instruction of each since `clear`; 0: there was none."""
        return list(struct.unpack(f"={2 * self.tasks}q", self._shared[:])[1::2])

    def clear(self) -> None:
        """Have the next instruction of each count as the first, after a pause."""
        for number in range(self.tasks):
            struct.pack_into("=q", self._shared, 16 * number + 8, 0)

    def until(self, read: Callable[[], list[int]]) -> list[int]:
        """Return what `read` gives once no number is missing."""
        end_s = time.monotonic() + WAIT_S
        while not all(read()):
            if time.monotonic() > end_s:
                raise RuntimeError("a task does nothing")
            time.sleep(0.01)
        return read()


class Samples:
    """Of one kind and launcher, in milliseconds."""

    def __init__(self) -> None:
        self.freezes: list[float] = []
        """To the last instruction of all, of each order."""
        self.thaws: list[float] = []
        """To the first instruction of each process."""

    def measure(self, times: Times, freeze: Callable[[], None], thaw: Callable[[], None]) -> None:
        """Freeze and thaw once."""
        began_ns = time.monotonic_ns()
        freeze()
        seen_s = time.monotonic()
        time.sleep(SETTLE_S)
        last_ns = max(times.last_ns())
        if last_ns / 1e9 > seen_s + MISSED_S:
            raise RuntimeError("a task runs although it was said to be frozen")
        self.freezes.append((last_ns - began_ns) / 1e6)
        times.clear()
        began_ns = time.monotonic_ns()
        thaw()
        self.thaws += [(each - began_ns) / 1e6 for each in times.until(times.first_ns)]
        time.sleep(RUNNING_S)


@contextmanager
def disk_load(folder: Path) -> Iterator[None]:
    """Write and sync two files."""
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITES, str(folder / f"load-{number}")])
        for number in range(2)
    ]
    try:
        yield
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()


class Bench:
    """One launcher with its tasks."""

    def __init__(self, kind: str, program: Path, tasks: int) -> None:
        sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
        self._kit: Any = importlib.import_module("tests.launcher.harness")
        self._words: Any = importlib.import_module("iriai.launcher.contract.messages")
        reasons: Any = importlib.import_module("iriai.model.suspension")
        self._reasons = (reasons.SuspendReason.OWNER,)
        self.kind = kind
        variant = self._kit.Variant(kind, isolation=kind)
        self.machine = self._kit.Machine(variant, task_user().pw_name)
        self._lab = self._kit.Lab(self.machine.start())
        folder = self._lab.folder  # nothing else of /tmp is there for tasks
        self.times = Times(folder / "times", tasks)
        arguments = (shutil.copy(program, folder), str(self.times.path))
        self._attempts = [
            self._lab.launch(self._lab.spec(*arguments, str(number), str(tasks), output=""))
            for number in range(tasks)
        ]
        self.pids = [self._lab.link.pid_of(each) for each in self._attempts]
        self.times.until(self.times.last_ns)
        self._number = 0
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))  # its own turn is not measured

    def order(self, *, is_frozen: bool) -> None:
        """Send the order about all; return when the launcher has answered for each."""
        self._number += 1
        reasons = self._reasons if is_frozen else ()
        orders = tuple(
            self._words.FreezeOrder(each, self._number, reasons) for each in self._attempts
        )
        link = self._lab.link
        link.frozen.clear()
        link.send(self._words.Freeze(orders))
        link.until(lambda: len(link.frozen) >= len(orders), "the answers")
        if not all(state.is_complete for state in link.frozen):
            raise RuntimeError("a task was not frozen in time")

    def bare(self) -> tuple[Callable[[], None], Callable[[], None]]:
        """Return what freezes and thaws the same tasks without a launcher."""
        if self.kind == "none":
            return lambda: self._signal(signal.SIGSTOP), lambda: self._signal(signal.SIGCONT)
        place, name, words = FREEZERS[self.kind]
        parent = Path("/sys/fs/cgroup") / place / f"iriai-{self.machine.mark}"
        groups = [each for each in parent.iterdir() if each.is_dir() and _members(each)]
        if len(groups) != len(self.pids):
            raise RuntimeError(f"{len(groups)} groups of {len(self.pids)} tasks in {parent}")
        files = [each / name for each in groups]
        return lambda: _write(files, words[0]), lambda: _write(files, words[1])

    def _signal(self, number: signal.Signals) -> None:
        for pid in self.pids:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def close(self) -> None:
        """End the tasks, which may keep a launcher without groups from anything, and this one."""
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        self._signal(signal.SIGKILL)
        self._lab.close()
        self.machine.close()


def _members(group: Path) -> bool:
    return bool((group / "cgroup.procs").read_text())


def _write(files: list[Path], word: bytes) -> None:
    for path in files:
        fd = os.open(path, os.O_WRONLY)
        os.write(fd, word)
        os.close(fd)


def measure(kind: str, program: Path, options: Options, figures: Figures) -> None:
    """Start a launcher with tasks, and freeze and thaw them, by it and without it in turns."""
    tasks = options.tasks(TASKS, QUICK_TASKS)
    with tempfile.TemporaryDirectory(prefix="iriai-suspend-") as name:
        bench = Bench(kind, program, tasks)
        try:
            with disk_load(Path(name)):
                first, own, bare = Samples(), Samples(), Samples()
                freeze = partial(bench.order, is_frozen=True)
                thaw = partial(bench.order, is_frozen=False)
                first.measure(bench.times, freeze, thaw)
                bare_freeze, bare_thaw = bench.bare()
                for _ in range(options.tasks(ORDERS, QUICK_ORDERS)):
                    own.measure(bench.times, freeze, thaw)
                    bare.measure(bench.times, bare_freeze, bare_thaw)
        finally:
            bench.close()
    figures.add("first_ms", first.freezes[0])
    figures.add("freeze_p50_ms", percentile(own.freezes, 50))
    figures.add("freeze_p99_ms", percentile(own.freezes, 99))
    figures.add("limit_ms", percentile(bare.freezes, 99))
    figures.add("thaw_p99_ms", percentile(own.thaws, 99))
    figures.add("thaw_limit_ms", percentile(bare.thaws, 99))


def main() -> None:
    """Measure each way in turns."""
    options = read_options(__doc__ or "")
    facts = machine_facts(Path(tempfile.gettempdir()))
    by_kind = {kind: Figures() for kind in KINDS}
    with tempfile.TemporaryDirectory(prefix="iriai-suspend-") as name:
        Path(name).chmod(0o755)
        program = compile_program(Path(name), NOTE)
        for run in range(options.runs):
            for kind, figures in by_kind.items():
                measure(kind, program, options, figures)
                progress(f"run {run + 1}, {kind}: {figures.answer()}")
    answers = {kind: figures.answer() for kind, figures in by_kind.items()}
    finish({"benchmark": "suspend", **answers, "machine": facts})


if __name__ == "__main__":
    main()
