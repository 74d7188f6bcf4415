"""Processes as /proc shows them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_ENVIRONMENT_BYTES = 4 << 20
"""How much of an environment is searched; the kernel allows one of 2 MB by default."""


class Process(NamedTuple):
    """One process at one moment."""

    pid: int
    state: str
    """One letter; Z is a zombie, X a dead process."""
    parent: int
    session: int
    started_ticks: int
    """Clock ticks after boot; with pid and boot this identifies the process for ever."""
    cpu_s: float
    """Of itself and of the children it waited for."""
    memory_bytes: int

    @property
    def is_live(self) -> bool:
        """Whether it is neither a zombie nor dead."""
        return self.state not in "ZX"


def boot_id() -> str:
    """Return the identity of this boot; process ids of another boot mean nothing."""
    with open("/proc/sys/kernel/random/boot_id", encoding="utf-8") as file:
        return file.read().strip()


def read_process(pid: int) -> Process | None:
    """Return the process `pid`, or None if there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name stands in parentheses and may hold anything, parentheses too.
    fields = text[text.rindex(b")") + 2 :].split()
    ticks = sum(map(int, fields[11:15]))
    return Process(
        pid,
        fields[0].decode(),
        int(fields[1]),
        int(fields[3]),
        int(fields[19]),
        ticks / TICKS_PER_S,
        int(fields[21]) * PAGE_BYTES,
    )


def all_processes() -> Iterator[Process]:
    """Yield every process."""
    return read_processes(int(name) for name in os.listdir("/proc") if name.isdigit())


def read_processes(pids: Iterable[int]) -> Iterator[Process]:
    """Yield those of `pids` that exist."""
    for pid in pids:
        found = read_process(pid)
        if found is not None:
            yield found


def children_of(pid: int) -> list[int]:
    """Return the direct children of a single-threaded process, zombies included."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children", "rb") as file:
            return [int(child) for child in file.read().split()]
    except FileNotFoundError:  # a kernel without it
        return [process.pid for process in all_processes() if process.parent == pid]


def active_threads_below(root: int, within_s: float) -> int:
    """Return how many threads of the processes below `root` run, want to run, or wait for a disk.

    These are what the load average counts. After `within_s` it stops, so there may be more.
    """
    end_s, count, below = time.monotonic() + within_s, 0, [root]
    for pid in below:  # grows while it is walked
        with suppress(OSError, ValueError):
            for thread in os.listdir(f"/proc/{pid}/task"):
                if time.monotonic() > end_s:
                    return count
                place = f"/proc/{pid}/task/{thread}"
                with suppress(OSError, ValueError):
                    with open(f"{place}/children", "rb") as file:
                        below += map(int, file.read().split())
                    if pid != root:
                        with open(f"{place}/stat", "rb") as file:
                            text = file.read()
                        count += text[text.rindex(b")") + 2 :][:1] in b"RD"
    return count


def user_of(pid: int) -> int | None:
    """Return the real user id of a process, or None if it has ended.

    A setuid file changes the effective user id but not the real one, and no user can take that of
    another.
    """
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            for line in file:
                if line.startswith(b"Uid:"):
                    return int(line.split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None


def marks_of(pid: int, name: bytes) -> list[bytes]:
    """Return the values of the environment variable `name` that a process was started with."""
    content = b""
    with suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
        content = file.read(_ENVIRONMENT_BYTES)
    start = name + b"="
    entries = content.split(b"\0")
    return [entry.removeprefix(start) for entry in entries if entry.startswith(start)]


def sum_of(pids: Iterable[int]) -> tuple[float, int, int]:
    """Return processor seconds of `pids`, and resident bytes and number of the live ones."""
    cpu_s, memory_bytes, count = 0.0, 0, 0
    for process in read_processes(pids):
        cpu_s += process.cpu_s
        if process.is_live:
            memory_bytes += process.memory_bytes
            count += 1
    return cpu_s, memory_bytes, count
