"""Controllers of version 2 control groups, all in one directory."""

from __future__ import annotations

import os

from iriai.launcher.containment.cgroups.controllers import CACHE_KEPT_BYTES
from iriai.launcher.containment.cgroups.files import open_file, read_field, read_number, write_file

WEIGHT_PER_CPU = 100
"""The kernel's default for a group."""
WEIGHT_MAX = 10_000


class CpuSharesV2:
    """cpu.weight."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._cpus = 1

    def set_cpus(self, cpus: int) -> None:
        """Give the group the share of `cpus`."""
        if cpus != self._cpus:
            weight = min(WEIGHT_PER_CPU * max(cpus, 1), WEIGHT_MAX)
            write_file(self._directory, "cpu.weight", str(weight))
            self._cpus = cpus


class CpuAccountV2:
    """cpu.stat, which every group has whatever its controllers."""

    def __init__(self, directory: str) -> None:
        self._fd = open_file(directory, "cpu.stat")
        self._base_us = read_field(self._fd, b"usage_usec")

    def cpu_s(self) -> float:
        """Seconds used since the last `reset`."""
        return (read_field(self._fd, b"usage_usec") - self._base_us) / 1e6

    def reset(self) -> None:
        """Count from here."""
        self._base_us = read_field(self._fd, b"usage_usec")

    def close(self) -> None:
        """Close what is open."""
        os.close(self._fd)


class MemoryV2:
    """memory.max, memory.peak, memory.events.

    A group that goes over its limit is killed as a whole by the kernel. The peak can be reset from
    Linux 6.12 on; before that a pooled group would report the largest peak it ever had, so the
    constructor refuses such a kernel with OSError, and the peak is sampled.
    """

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._peak_fd = open_file(directory, "memory.peak", os.O_RDWR)
        try:
            os.write(self._peak_fd, b"0")
            self._events_fd = open_file(directory, "memory.events")
            write_file(directory, "memory.oom.group", "1")
        except OSError:
            os.close(self._peak_fd)
            raise
        self._limit_bytes = 0
        self._base_bytes = read_number(self._peak_fd)
        self._base_kills = read_field(self._events_fd, b"oom_kill")
        self.alarm_fd = -1  # the kernel kills the whole group, which the exit of the task tells

    def set_limit(self, limit_bytes: int) -> None:
        """Limit the group, swap included; 0 is no limit."""
        if limit_bytes != self._limit_bytes:
            write_file(self._directory, "memory.max", str(limit_bytes) if limit_bytes else "max")
            if os.path.exists(f"{self._directory}/memory.swap.max"):
                write_file(self._directory, "memory.swap.max", "0" if limit_bytes else "max")
            self._limit_bytes = limit_bytes

    def peak_bytes(self) -> int:
        """The most that was in use at once since the last `reset`."""
        return max(0, read_number(self._peak_fd) - self._base_bytes)

    def kills(self) -> int:
        """Processes that the kernel killed for lack of memory since the last `reset`."""
        return read_field(self._events_fd, b"oom_kill") - self._base_kills

    def reset(self) -> bool:
        """Count from here; False where the last task left more cached than may stay."""
        os.write(self._peak_fd, b"0")
        self._base_bytes = read_number(self._peak_fd)
        if self._limit_bytes:
            self._base_kills = read_field(self._events_fd, b"oom_kill")
        return self._base_bytes <= CACHE_KEPT_BYTES

    def close(self) -> None:
        """Close what is open."""
        os.close(self._peak_fd)
        os.close(self._events_fd)
