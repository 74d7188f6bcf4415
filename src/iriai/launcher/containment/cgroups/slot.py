"""A pooled control group: one task at a time, with whichever controllers this machine has."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from dataclasses import dataclass

from iriai.launcher.containment.cgroups.controllers import CpuAccount, CpuShares, Memory, Processes
from iriai.launcher.containment.cgroups.devices import Devices, Nodes
from iriai.launcher.containment.cgroups.files import read_pids, write_file
from iriai.launcher.containment.container import Limits, Use
from iriai.system.procfs import sum_of


@dataclass
class TaskGroup:
    """One group, in each hierarchy that is used. None stands for a controller that is missing."""

    number: int
    directories: tuple[str, ...]
    """Of its groups, without repetition; the first one lists the members."""
    joins: tuple[str, ...]
    """Options of iriai-exec that make it a member."""
    cards: tuple[Nodes, ...] = ()
    """All that are known; it is of use as long as these are."""
    shares: CpuShares | None = None
    account: CpuAccount | None = None
    memory: Memory | None = None
    count: Processes | None = None
    devices: Devices | None = None
    """None where no GPUs are known."""
    has_kill: bool = False
    """Whether the first directory has `cgroup.kill`."""

    @property
    def limits_memory(self) -> bool:
        """Whether the kernel keeps the memory limit and the peak."""
        return self.memory is not None

    @property
    def limits_processes(self) -> bool:
        """Whether the kernel keeps the process limit."""
        return self.count is not None

    @property
    def alarm_fd(self) -> int:
        """Readable when the memory limit was hit; -1 where there is no such sign."""
        return self.memory.alarm_fd if self.memory else -1

    def prepare(self, limits: Limits) -> None:
        """Set the limits of the next task. Raises OSError where the kernel refuses one."""
        if self.shares:
            self.shares.set_cpus(limits.cpus)
        if self.memory:
            self.memory.set_limit(limits.memory_bytes)
        if self.count:
            self.count.set_limit(limits.processes)
        if self.devices:
            self.devices.allow(limits.gpu_ids)

    @property
    def started_ticks(self) -> int:
        """Not asked: who is a member needs no search."""
        return 0

    def hold(self, pid: int, uid: int, mark: str) -> None:
        """The process joined by itself."""

    def processes(self) -> list[int]:
        """Live processes of the task, without zombies."""
        return read_pids(self.directories[0])

    def is_empty(self) -> bool:
        """Whether no process of the task is left."""
        return self.count.count() == 0 if self.count else not self.processes()

    def kill(self) -> None:
        """Send SIGKILL to all; where the kernel counts processes nobody can fork away from it."""
        if self.has_kill:
            write_file(self.directories[0], "cgroup.kill", "1")
            return
        if self.count:
            self.count.set_limit(-1)
        for pid in self.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def cpu_s(self) -> float | None:
        """Processor time of the whole task; None where only `wait` tells."""
        return self.account.cpu_s() if self.account else None

    def memory_peak_bytes(self) -> int | None:
        """Most memory in use at once; None where only `wait` tells."""
        return self.memory.peak_bytes() if self.memory else None

    def memory_kills(self) -> int:
        """Processes that the kernel killed for lack of memory."""
        return self.memory.kills() if self.memory else 0

    def process_refusals(self) -> int:
        """How often the process limit refused a new process."""
        return self.count.refusals() if self.count else 0

    def sample(self) -> Use:
        """What is used at this moment, read from each process."""
        cpu_s, memory_bytes, processes = sum_of(self.processes())
        counted = self.cpu_s()
        return Use(cpu_s if counted is None else counted, memory_bytes, processes)

    def reset(self) -> bool:
        """Count from here on for the next task; False where none should follow in here."""
        if self.account:
            self.account.reset()
        if self.count:
            self.count.reset()
        return self.memory.reset() if self.memory else True

    def close(self) -> None:
        """Close what is open and remove the groups, if they are empty."""
        for controller in (self.account, self.memory, self.count, self.devices):
            if controller:
                controller.close()
        for directory in self.directories:
            with suppress(OSError):
                os.rmdir(directory)
