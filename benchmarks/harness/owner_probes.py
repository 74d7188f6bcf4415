"""What an owner does at a machine: five probes, and busy threads; each a process of the owner's."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.freezers import compile_program
from harness.report import percentile

WAKES = r"""
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
enum { PERIOD_NS = 10000000, WORK_NS = 2000000, LOOK = 200 };
static volatile uint64_t sink;
static int64_t now_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * 1000000000 + now.tv_nsec;
}
static void work(long loops)
{
    for (long loop = 0; loop < loops; loop++)
        for (int each = 0; each < LOOK; each++)
            sink += each;
}
int main(int count, char **words)
{
    long loops = atol(words[2]);
    if (!loops) { /* how much two milliseconds of processor time are */
        for (loops = 1000;; loops *= 2) {
            int64_t began_ns = now_ns(CLOCK_PROCESS_CPUTIME_ID);
            work(loops);
            int64_t took_ns = now_ns(CLOCK_PROCESS_CPUTIME_ID) - began_ns;
            if (took_ns > 10 * WORK_NS) {
                printf("%ld\n", (long)(loops * ((double)WORK_NS / took_ns)));
                return 0;
            }
        }
    }
    int64_t due_ns = now_ns(CLOCK_MONOTONIC);
    for (long wake = 0; wake < atol(words[1]); wake++) {
        due_ns += PERIOD_NS;
        struct timespec due = {due_ns / 1000000000, due_ns % 1000000000};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, 0);
        int64_t late_ns = now_ns(CLOCK_MONOTONIC) - due_ns;
        work(loops);
        int64_t ended_ns = now_ns(CLOCK_MONOTONIC);
        printf("%lld %lld\n", (long long)late_ns, (long long)(ended_ns - due_ns));
        if (ended_ns > due_ns)
            due_ns = ended_ns;
    }
}
"""
MEMORY = "held = bytearray(b'x') * (int(__import__('sys').argv[1]) << 20)"
READS = """
import os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
while os.read(fd, 1 << 20): pass
"""
SYNCS = """
import os, sys
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
for number in range(int(sys.argv[2])):
    os.pwrite(fd, bytes(4096), 4096 * number)
    os.fsync(fd)
"""
BUSY = "while :; do :; done"
TEXT_LINES, QUICK_TEXT_LINES = 4000, 400
MEMORY_MIB, QUICK_MEMORY_MIB = 512, 64
FILE_MIB, QUICK_FILE_MIB = 128, 16
SYNC_COUNT, QUICK_SYNC_COUNT = 100, 10
WAKE_COUNT, QUICK_WAKE_COUNT = 500, 30
BUSY_S, QUICK_BUSY_S = 4.0, 0.5
MIB = 1 << 20


class OwnerProbes:
    """Each is timed as its owner sees it, in a session of its own, as at a terminal."""

    def __init__(self, folder: Path, *, is_quick: bool) -> None:
        self._folder = folder
        self._is_quick = is_quick
        self._wakes = str(compile_program(folder, WAKES))
        lines = QUICK_TEXT_LINES if is_quick else TEXT_LINES
        functions = (f"int f{n}(int x) {{ return x * {n} + x / {n + 1}; }}" for n in range(lines))
        (folder / "large.c").write_text("\n".join(functions))
        self._cold = folder / "cold"
        size = (QUICK_FILE_MIB if is_quick else FILE_MIB) * MIB
        self._cold.write_bytes(os.urandom(MIB) * (size // MIB))
        with self._cold.open("rb") as file:
            os.fsync(file.fileno())
        self._loops = self._output(self._wakes, "0", "0").strip()

    def measure(self) -> dict[str, float]:
        """Return the seconds that each takes, `wake_p99_ms`, and `cpu_s` of busy threads."""
        is_quick, folder = self._is_quick, self._folder
        memory = QUICK_MEMORY_MIB if is_quick else MEMORY_MIB
        syncs = QUICK_SYNC_COUNT if is_quick else SYNC_COUNT
        python = sys.executable
        wakes = self._measure_wakes()
        compiling = ("cc", "-O2", "-c", "-o", str(folder / "large.o"), str(folder / "large.c"))
        return {
            **wakes,
            "compile_s": self._seconds(*compiling),
            "memory_s": self._seconds(python, "-c", MEMORY, str(memory)),
            "cold_read_s": self._read_cold(),
            "fsync_s": self._seconds(python, "-c", SYNCS, str(folder / "synced"), str(syncs)),
            "cpu_s": self._cpu_of_busy(),
        }

    def _measure_wakes(self) -> dict[str, float]:
        count = QUICK_WAKE_COUNT if self._is_quick else WAKE_COUNT
        rows = self._output(self._wakes, str(count), self._loops).splitlines()
        late, done = zip(*(map(int, row.split()) for row in rows), strict=True)
        return {"wake_p99_ms": percentile(late, 99) / 1e6, "wake_s": sum(done) / len(done) / 1e9}

    def _read_cold(self) -> float:
        fd = os.open(self._cold, os.O_RDONLY)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)
        return self._seconds(sys.executable, "-c", READS, str(self._cold))

    def _cpu_of_busy(self) -> float:
        """Return the processor time that busy threads get, one for each processor."""
        with busy_owner() as pids:
            before_ns = sum(map(ran_ns, pids))
            time.sleep(QUICK_BUSY_S if self._is_quick else BUSY_S)
            return (sum(map(ran_ns, pids)) - before_ns) / 1e9

    def _output(self, *words: str) -> str:
        done = subprocess.run(words, check=True, stdout=subprocess.PIPE, start_new_session=True)
        return done.stdout.decode()

    def _seconds(self, *words: str) -> float:
        began_s = time.monotonic()
        subprocess.run(words, check=True, start_new_session=True)
        return time.monotonic() - began_s


@contextmanager
def busy_owner() -> Iterator[list[int]]:
    """One busy process of the owner's for each processor, in a session of their own."""
    words = [*["sh", "-c"], " & ".join([BUSY] * len(os.sched_getaffinity(0)))]
    shell = subprocess.Popen(words, start_new_session=True)
    try:
        time.sleep(0.1)
        children = Path(f"/proc/{shell.pid}/task/{shell.pid}/children").read_text().split()
        yield [shell.pid, *map(int, children)]
    finally:
        os.killpg(shell.pid, signal.SIGKILL)
        shell.wait()


def ran_ns(pid: int) -> int:
    """Return the processor time of a process."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])
