"""Back ends of one host, each a launcher with a rank of each gang, and what the ranks note."""

from __future__ import annotations

import importlib
import mmap
import os
import shutil
import signal
import struct
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from harness.freezers import FREEZERS
from harness.task_user import task_user

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = r"""
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
enum { WORDS = 8192, TICK_NS = 500000, GAP_NS = 40000000 };
static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return now.tv_sec * 1000000000 + now.tv_nsec;
}
static void compute(int64_t loops)
{
    for (volatile int64_t i = 0; i < loops; i++)
        ;
}
static void note(volatile int64_t *own)
{
    struct timespec tick = {0, TICK_NS};
    int64_t last = now_ns();
    for (;;) { /* own[0]: how many gaps, own[1]: the last moment; then the ends of each gap */
        nanosleep(&tick, 0);
        int64_t now = now_ns();
        if (now - last > GAP_NS && 2 * own[0] + 3 < WORDS) {
            own[2 * own[0] + 2] = last;
            own[2 * own[0] + 3] = now;
            own[0]++;
        }
        own[1] = last = now;
    }
}
static void talk(volatile int64_t *own, int port, int peer, int64_t loops)
{
    struct sockaddr_in here = {AF_INET, htons(port), {htonl(INADDR_LOOPBACK)}, {0}};
    struct sockaddr_in there = {AF_INET, htons(peer), {htonl(INADDR_LOOPBACK)}, {0}};
    struct timeval patience = {0, 20000};
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    bind(fd, (struct sockaddr *)&here, sizeof here);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    for (int64_t round = 1;; round++) {
        int64_t heard = 0;
        compute(loops);
        while (heard < round) {
            sendto(fd, &round, sizeof round, 0, (struct sockaddr *)&there, sizeof there);
            while (heard < round && recv(fd, &heard, sizeof heard, 0) == sizeof heard)
                ;
        }
        own[0] = round;
        own[1] = now_ns();
    }
}
int main(int count, char **words)
{
    int fd = open(words[2], O_RDWR);
    volatile int64_t *own = mmap(0, WORDS * 8, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (own == MAP_FAILED)
        return 1;
    if (!strcmp(words[1], "note"))
        note(own);
    if (!strcmp(words[1], "talk")) {
        cpu_set_t cpus;
        CPU_ZERO(&cpus);
        CPU_SET(atoi(words[5]), &cpus);
        sched_setaffinity(0, sizeof cpus, &cpus);
        talk(own, atoi(words[3]), atoi(words[4]), atoll(words[6]));
    }
    own[1] = now_ns();
    for (int part = 0; part < 100; part++)
        compute(atoll(words[3]) / 100);
    own[0] = now_ns();
    return 0;
}
"""
WORDS = 8192
WAIT_S = 300.0


class Notes:
    """The memory that a rank shares with this program."""

    def __init__(self, path: Path) -> None:
        path.write_bytes(bytes(8 * WORDS))
        path.chmod(0o666)
        self.path = path
        with path.open("r+b") as file:
            self._shared = mmap.mmap(file.fileno(), 8 * WORDS)

    def __getitem__(self, place: int) -> int:
        value: int = struct.unpack_from("=q", self._shared, 8 * place)[0]
        return value

    def gaps(self) -> list[tuple[float, float]]:
        """Return the last moment before each pause of the rank, and the first after it."""
        return [(self[2 * n + 2] / 1e9, self[2 * n + 3] / 1e9) for n in range(self[0])]


class Rank(NamedTuple):
    """One rank, which is a task of one launcher."""

    end: BackEnd
    attempt: Any
    notes: Notes

    @property
    def pid(self) -> int:
        """Its process."""
        pid: int = self.end.lab.link.pid_of(self.attempt)
        return pid


class BackEnd:
    """One launcher, as a back end has it, and the daemon's side of it."""

    def __init__(self, kind: str, program: Path) -> None:
        sys.path.insert(0, str(ROOT))
        self._kit: Any = importlib.import_module("tests.launcher.harness")
        self.kind = kind
        variant = self._kit.Variant(kind, isolation=kind)
        self.machine = self._kit.Machine(variant, task_user().pw_name)
        self.lab = self._kit.Lab(self.machine.start())
        self._program = shutil.copy(program, self.lab.folder)
        self._files = 0

    def start(self, mode: str, *words: object) -> Rank:
        """Start a rank."""
        self._files += 1
        notes = Notes(self.lab.folder / f"notes-{self._files}")
        arguments = (self._program, mode, str(notes.path), *map(str, words))
        attempt = self.lab.launch(self.lab.spec(*arguments, output="", name=mode))
        return Rank(self, attempt, notes)

    def order(self, masks: dict[Any, int], row_0_s: float, quantum_s: float) -> None:
        """Have ranks take turns; nobody, if there are no masks."""
        rows = 2 if masks else 0
        self.lab.link.set_cycle(masks, quantum_s=quantum_s, rows=rows, row_0_s=row_0_s)

    def settle(self) -> None:
        """Return once all orders have been read."""
        self.machine.wait_until_read(self.lab.link)

    def cancel(self, ranks: list[Rank]) -> None:
        """End these."""
        messages: Any = importlib.import_module("iriai.launcher.contract.messages")
        states: Any = importlib.import_module("iriai.model.state")
        attempts = tuple(each.attempt for each in ranks)
        self.lab.link.send(messages.Terminate(attempts, states.EndCause.CANCELLED, 0.0))
        for each in attempts:
            self.lab.link.exit_of(each)

    def freezer_of(self, pid: int) -> tuple[Path, bytes, bytes]:
        """Return the file of a task that was frozen before, and the words for it."""
        place, name, words = FREEZERS[self.kind]
        for parent in (Path("/sys/fs/cgroup") / place, Path("/sys/fs/cgroup")):
            for group in parent.glob(f"iriai-{self.machine.mark}/*/"):
                if group.is_dir() and str(pid) in (group / "cgroup.procs").read_text().split():
                    return group / name, *words
        raise RuntimeError(f"there is no group of process {pid}")

    def close(self) -> None:
        """End it with all ranks."""
        self.lab.close()
        self.machine.close()


class BareLoop:
    """Switches groups at moments of the clock, and does nothing else."""

    def __init__(self, kind: str, gangs: list[list[Rank]]) -> None:
        self._kind = kind
        self._pids = [[rank.pid for rank in gang] for gang in gangs]
        self._files: list[list[tuple[int, bytes, bytes]]] = []
        if kind != "none":
            for gang in gangs:
                found = [rank.end.freezer_of(rank.pid) for rank in gang]
                self._files.append(
                    [(os.open(path, os.O_WRONLY), on, off) for path, on, off in found]
                )

    def run(self, row_0_s: float, quantum_s: float, slices: int) -> None:
        """Let the gangs take turns for so many slices; both go on afterwards."""
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(3))
        try:
            for number in range(slices):
                due_s = row_0_s + number * quantum_s
                time.sleep(max(0.0, due_s - time.clock_gettime(time.CLOCK_BOOTTIME)))
                self._write(1 - number % 2, is_frozen=True)
                self._write(number % 2, is_frozen=False)
            time.sleep(quantum_s)
        finally:
            for gang in (0, 1):
                self._write(gang, is_frozen=False)
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))

    def close(self) -> None:
        """Close its files."""
        for gang in self._files:
            for fd, _, _ in gang:
                os.close(fd)

    def _write(self, gang: int, *, is_frozen: bool) -> None:
        if self._kind == "none":
            number = signal.SIGSTOP if is_frozen else signal.SIGCONT
            for pid in self._pids[gang]:
                with suppress(ProcessLookupError):
                    os.kill(pid, number)
            return
        for fd, on, off in self._files[gang]:
            os.write(fd, on if is_frozen else off)


def wait_until(condition: Callable[[], object], what: str) -> None:
    """Wait until `condition` holds."""
    end_s = time.monotonic() + WAIT_S
    while not condition():
        if time.monotonic() > end_s:
            raise RuntimeError(f"waited in vain for: {what}")
        time.sleep(0.01)
