"""Controllers of one pooled control group, each with the files of both versions."""

from __future__ import annotations

import os
from contextlib import suppress

CACHE_KEPT_BYTES = 4 << 20
"""What a task may leave cached in its pooled group: a few libraries and its output. It is not
counted as the next task's. Where it is more the group is given up, since waiting until the kernel
has written and dropped it would hold up the launcher."""
_NUMBER_BYTES = 32
_TEXT_BYTES = 4096


def open_file(directory: str, name: str, flags: int = os.O_RDONLY) -> int:
    """Open a file that stays open; reading it again is one call."""
    return os.open(f"{directory}/{name}", flags | os.O_CLOEXEC)


def read_number(fd: int) -> int:
    """Return the number that an open file contains now."""
    return int(os.pread(fd, _NUMBER_BYTES, 0))


def read_field(fd: int, field: bytes) -> int:
    """Return the number after `field` in an open file of `name number` lines; 0 if missing."""
    return field_in(os.pread(fd, _TEXT_BYTES, 0), field)


def field_in(text: bytes, field: bytes) -> int:
    """Return the number after `field` in `name number` lines; 0 if missing."""
    _, _, behind = (b"\n" + text).partition(b"\n" + field + b" ")
    return int(behind.partition(b"\n")[0] or 0)


def write_file(directory: str, name: str, text: str) -> None:
    """Write a setting; raise OSError if the kernel refuses it."""
    fd = os.open(f"{directory}/{name}", os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def read_pids(directory: str) -> list[int]:
    """Return the processes in a group, without zombies."""
    with open(f"{directory}/cgroup.procs", encoding="utf-8") as file:
        return [int(line) for line in file]


def make_afresh(directory: str) -> None:
    """Make a group whose settings are the kernel's defaults. Raises OSError."""
    try:
        os.makedirs(directory)  # an administrator may have removed the empty parent
    except FileExistsError:
        os.rmdir(directory)
        os.mkdir(directory)


def stop_growth(directory: str) -> None:
    """Kill all members of a group at once, or keep them from forking, if the kernel can."""
    for name, text in (("cgroup.kill", "1"), ("pids.max", "0")):
        with suppress(OSError):
            write_file(directory, name, text)


class CpuShares:
    """Divides processor time in proportion to the cpus that tasks asked for."""

    def __init__(self, directory: str, version: int) -> None:
        self._directory = directory
        # The kernel's default of a group counts as one cpu, as an ordinary process does.
        self._file, self._per_cpu, self._max = (
            ("cpu.shares", 1024, 1 << 18) if version == 1 else ("cpu.weight", 100, 10_000)
        )
        self._cpus = 1

    def set_cpus(self, cpus: int) -> None:
        """Give the group the share of `cpus`."""
        if cpus != self._cpus:
            share = min(self._per_cpu * max(cpus, 1), self._max)
            write_file(self._directory, self._file, str(share))
            self._cpus = cpus


class CpuAccount:
    """Counts processor time; in version 2 every group has it, whatever its controllers."""

    def __init__(self, directory: str, version: int) -> None:
        self._version = version
        self._fd = open_file(directory, "cpuacct.usage" if version == 1 else "cpu.stat")
        self._base_s = self._seen_s = self._total_s()

    def cpu_s(self) -> float:
        """Return the seconds used since the last `reset`."""
        self._seen_s = self._total_s()
        return self._seen_s - self._base_s

    def reset(self) -> None:
        """Count from what was last read: a task is over, and its end was reported with that."""
        self._base_s = self._seen_s

    def close(self) -> None:
        """Close the open file."""
        os.close(self._fd)

    def _total_s(self) -> float:
        if self._version == 1:
            return read_number(self._fd) / 1e9
        return read_field(self._fd, b"usage_usec") / 1e6


class Memory:
    """Limits and measures memory; the peak is counted from the last `reset`."""

    alarm_fd = -1
    """Becomes readable when the limit was hit and nothing could be given back; -1: none yet."""

    def __init__(self, directory: str, peak: str, events: str) -> None:
        """`peak` and `events` are the names of the kernel's files.

        Raises OSError where the kernel cannot reset the peak.
        """
        self._directory = directory
        self._peak_fd = open_file(directory, peak, os.O_RDWR)
        try:
            os.write(self._peak_fd, b"0")
            self._events_fd = open_file(directory, events)
        except OSError:
            os.close(self._peak_fd)
            raise
        self._limit_bytes = 0
        self._base_bytes = read_number(self._peak_fd)
        self._events = os.pread(self._events_fd, _TEXT_BYTES, 0)
        """As they were at the last `reset`."""

    def set_limit(self, limit_bytes: int) -> None:
        """Limit the group, swap included; 0 is no limit. Raises OSError if the kernel refuses."""
        if limit_bytes != self._limit_bytes:
            self._write_limit(limit_bytes)
            self._limit_bytes = limit_bytes

    def _write_limit(self, limit_bytes: int) -> None:
        raise NotImplementedError

    def allow_swap(self) -> str:
        """Let the group swap within its limit; return the file by which it does; empty: none."""
        return ""

    def forbid_swap(self) -> None:
        """Let it swap no more than it has."""

    def peak_bytes(self) -> int:
        """Return the most that was in use at once since the last `reset`."""
        peak_bytes = read_number(self._peak_fd)
        if self._limit_bytes and peak_bytes >= self._limit_bytes:
            return peak_bytes  # what was cached before had been given back by then
        return max(0, peak_bytes - self._base_bytes)

    def kills(self) -> int:
        """Return how many processes the kernel killed for lack of memory since the `reset`."""
        return read_field(self._events_fd, b"oom_kill") - field_in(self._events, b"oom_kill")

    def reset(self) -> bool:
        """Count from now on; return False if the last task left more cached than may stay."""
        os.write(self._peak_fd, b"0")
        self._base_bytes = read_number(self._peak_fd)
        if self._limit_bytes:
            self._events = os.pread(self._events_fd, _TEXT_BYTES, 0)
            if self.alarm_fd >= 0:
                with suppress(BlockingIOError):
                    os.eventfd_read(self.alarm_fd)
        return self._base_bytes <= CACHE_KEPT_BYTES

    def close(self) -> None:
        """Close the open files."""
        os.close(self._peak_fd)
        os.close(self._events_fd)
        if self.alarm_fd >= 0:
            os.close(self.alarm_fd)


class MemoryV1(Memory):
    """memory.limit_in_bytes, with swap where it is accounted, and an event for the OOM killer."""

    def __init__(self, directory: str) -> None:
        super().__init__(directory, "memory.max_usage_in_bytes", "memory.oom_control")
        self._swap = os.path.exists(f"{directory}/memory.memsw.limit_in_bytes")

    def _write_limit(self, limit_bytes: int) -> None:
        if self.alarm_fd < 0:
            self._watch()
        # The limit with swap must never be below the one without, so the order depends.
        names = ["memory.limit_in_bytes"]
        if self._swap:
            is_lowered = limit_bytes and (not self._limit_bytes or limit_bytes < self._limit_bytes)
            names.insert(1 if is_lowered else 0, "memory.memsw.limit_in_bytes")
        for name in names:
            write_file(self._directory, name, str(limit_bytes or -1))

    def _watch(self) -> None:
        alarm_fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        try:
            event = f"{alarm_fd} {self._events_fd}"
            write_file(self._directory, "cgroup.event_control", event)
        except OSError:
            os.close(alarm_fd)
            raise
        self.alarm_fd = alarm_fd


class MemoryV2(Memory):
    """memory.max, memory.peak, memory.events.

    The kernel kills a group that exceeds its limit as a whole, which the exit of the task shows, so
    there is no alarm. The peak can be reset from Linux 6.12 on; before that a pooled group would
    report the largest peak it ever had, so such a kernel is refused, and the peak is sampled.
    """

    def __init__(self, directory: str) -> None:
        write_file(directory, "memory.oom.group", "1")
        self._swaps = False
        super().__init__(directory, "memory.peak", "memory.events")

    def _write_limit(self, limit_bytes: int) -> None:
        write_file(self._directory, "memory.max", str(limit_bytes or "max"))
        self._write_swap("0" if limit_bytes else "max")

    def allow_swap(self) -> str:
        """Lift the limit of 0 on swap; from Linux 5.19 on the group can be told to use it."""
        self._swaps = True
        self._write_swap("max")
        path = f"{self._directory}/memory.reclaim"
        return path if os.path.exists(path) else ""

    def forbid_swap(self) -> None:
        """Set that limit again; what is in swap stays there until it is used."""
        self._swaps = False
        self._write_swap("0" if self._limit_bytes else "max")

    def reset(self) -> bool:
        """Count from now on; the next task swaps no more than others."""
        if self._swaps:
            self.forbid_swap()
        return super().reset()

    def _write_swap(self, limit: str) -> None:
        if os.path.exists(f"{self._directory}/memory.swap.max"):
            write_file(self._directory, "memory.swap.max", limit)


class Pids:
    """Limits and counts processes; the files are the same in both versions."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._count_fd = open_file(directory, "pids.current")
        self._events_fd = -1
        """Opened with the first limit."""
        self._limit = 0
        self._base_refusals = 0

    def set_limit(self, processes: int) -> None:
        """Limit the group; 0 is no limit, -1 lets nobody fork."""
        if processes != self._limit:
            if self._events_fd < 0:
                self._events_fd = open_file(self._directory, "pids.events")
            text = "max" if not processes else str(max(processes, 0))
            write_file(self._directory, "pids.max", text)
            self._limit = processes

    def count(self) -> int:
        """Return the number of processes and threads in the group, zombies included."""
        return read_number(self._count_fd)

    def refusals(self) -> int:
        """Return how often the limit refused a new process since the last `reset`."""
        return self._refusals_ever() - self._base_refusals

    def reset(self) -> None:
        """Count from now on."""
        if self._limit:
            self._base_refusals = self._refusals_ever()

    def close(self) -> None:
        """Close the open files."""
        os.close(self._count_fd)
        if self._events_fd >= 0:
            os.close(self._events_fd)

    def _refusals_ever(self) -> int:
        return read_field(self._events_fd, b"max") if self._events_fd >= 0 else 0
