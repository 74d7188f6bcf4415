"""Controllers of version 1 control groups, one directory each."""

from __future__ import annotations

import os
from contextlib import suppress

from iriai.launcher.containment.cgroups.controllers import CACHE_KEPT_BYTES
from iriai.launcher.containment.cgroups.files import open_file, read_field, read_number, write_file

SHARES_PER_CPU = 1024
"""The kernel's default for a group, so one cpu weighs as much as an ordinary process."""


class CpuSharesV1:
    """cpu.shares."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._cpus = 1

    def set_cpus(self, cpus: int) -> None:
        """Give the group the share of `cpus`."""
        if cpus != self._cpus:
            write_file(self._directory, "cpu.shares", str(SHARES_PER_CPU * max(cpus, 1)))
            self._cpus = cpus


class CpuAccountV1:
    """cpuacct.usage, which only grows."""

    def __init__(self, directory: str) -> None:
        self._fd = open_file(directory, "cpuacct.usage")
        self._base = read_number(self._fd)

    def cpu_s(self) -> float:
        """Seconds used since the last `reset`."""
        return (read_number(self._fd) - self._base) / 1e9

    def reset(self) -> None:
        """Count from here."""
        self._base = read_number(self._fd)

    def close(self) -> None:
        """Close what is open."""
        os.close(self._fd)


class MemoryV1:
    """memory.limit_in_bytes, with swap where it is accounted, and an event for the OOM killer."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._peak_fd = open_file(directory, "memory.max_usage_in_bytes", os.O_RDWR)
        self._control_fd = open_file(directory, "memory.oom_control")
        self._limit_bytes = 0
        self._swap = os.path.exists(f"{directory}/memory.memsw.limit_in_bytes")
        self._base_bytes = read_number(self._peak_fd)
        self._base_kills = read_field(self._control_fd, b"oom_kill")
        self.alarm_fd = -1

    def set_limit(self, limit_bytes: int) -> None:
        """Limit the group; 0 is no limit. Raises OSError where the kernel refuses."""
        if limit_bytes == self._limit_bytes:
            return
        if self.alarm_fd < 0:
            self._watch()
        # The limit with swap must never be below the one without, so the order depends.
        names = ["memory.limit_in_bytes"]
        if self._swap:
            is_lowered = limit_bytes and (not self._limit_bytes or limit_bytes < self._limit_bytes)
            names.insert(1 if is_lowered else 0, "memory.memsw.limit_in_bytes")
        for name in names:
            write_file(self._directory, name, str(limit_bytes or -1))
        self._limit_bytes = limit_bytes

    def peak_bytes(self) -> int:
        """The most that was in use at once since the last `reset`."""
        peak_bytes = read_number(self._peak_fd)
        if self._limit_bytes and peak_bytes >= self._limit_bytes:
            return peak_bytes  # what was cached before had been given back by then
        return max(0, peak_bytes - self._base_bytes)

    def kills(self) -> int:
        """Processes that the kernel killed for lack of memory since the last `reset`."""
        return read_field(self._control_fd, b"oom_kill") - self._base_kills

    def reset(self) -> bool:
        """Count from here; False where the last task left more cached than may stay."""
        os.write(self._peak_fd, b"0")
        self._base_bytes = read_number(self._peak_fd)
        if self._limit_bytes:
            self._base_kills = read_field(self._control_fd, b"oom_kill")
            with suppress(BlockingIOError):
                os.eventfd_read(self.alarm_fd)
        return self._base_bytes <= CACHE_KEPT_BYTES

    def close(self) -> None:
        """Close what is open."""
        os.close(self._peak_fd)
        os.close(self._control_fd)
        if self.alarm_fd >= 0:
            os.close(self.alarm_fd)

    def _watch(self) -> None:
        alarm_fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        try:
            event = f"{alarm_fd} {self._control_fd}"
            write_file(self._directory, "cgroup.event_control", event)
        except OSError:
            os.close(alarm_fd)
            raise
        self.alarm_fd = alarm_fd
