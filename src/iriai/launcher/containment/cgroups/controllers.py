"""The interface of a controller, for both versions of control groups."""

from __future__ import annotations

from typing import Protocol

CACHE_KEPT_BYTES = 4 << 20
"""What a task may leave cached in its pooled group: a few libraries and its output. It is not
counted as the next task's. Where it is more the group is given up, since waiting until the kernel
has written and dropped it would hold up the launcher."""


class CpuShares(Protocol):
    """Divides processor time in proportion to the cpus that tasks asked for."""

    def set_cpus(self, cpus: int) -> None:
        """Give the group the share of `cpus`."""
        ...


class CpuAccount(Protocol):
    """Counts processor time."""

    def cpu_s(self) -> float:
        """Seconds used since the last `reset`."""
        ...

    def reset(self) -> None:
        """Count from here."""
        ...

    def close(self) -> None:
        """Close what is open."""
        ...


class Memory(Protocol):
    """Limits and measures memory."""

    alarm_fd: int
    """Becomes readable when the limit was hit and nothing could be given back; -1: none yet."""

    def set_limit(self, limit_bytes: int) -> None:
        """Limit the group; 0 is no limit. Raises OSError where the kernel refuses."""
        ...

    def peak_bytes(self) -> int:
        """The most that was in use at once since the last `reset`."""
        ...

    def kills(self) -> int:
        """Processes that the kernel killed for lack of memory since the last `reset`."""
        ...

    def reset(self) -> bool:
        """Count from here; False where the last task left more cached than may stay."""
        ...

    def close(self) -> None:
        """Close what is open."""
        ...


class Processes(Protocol):
    """Limits and counts processes."""

    def set_limit(self, processes: int) -> None:
        """Limit the group; 0 is no limit."""
        ...

    def count(self) -> int:
        """Processes and threads in the group, zombies too."""
        ...

    def refusals(self) -> int:
        """How often the limit refused a new process since the last `reset`."""
        ...

    def reset(self) -> None:
        """Count from here."""
        ...

    def close(self) -> None:
        """Close what is open."""
        ...
