"""Containment of one task: a pooled control group, or the process tree."""

from __future__ import annotations

from typing import NamedTuple, Protocol


class Limits(NamedTuple):
    """Limits that the kernel enforces, where it can."""

    cpus: int
    memory_bytes: int
    """0 is no limit."""
    processes: int
    """0 is no limit."""
    gpu_ids: tuple[int, ...] = ()
    """The only cards that it may open, by their numbers on this machine."""


class Use(NamedTuple):
    """The resources used by the processes of a task."""

    cpu_s: float
    memory_bytes: int
    """Resident at this moment."""
    processes: int
    """At this moment."""


class Containment(Protocol):
    """The processes of one task, whatever they do to get away."""

    number: int
    """Of the pooled group; -1 without one."""
    joins: tuple[str, ...]
    """Options of iriai-exec by which a process gets in."""

    @property
    def limits_memory(self) -> bool:
        """Whether the kernel keeps the memory limit and the peak."""
        ...

    @property
    def limits_processes(self) -> bool:
        """Whether the kernel keeps the process limit."""
        ...

    @property
    def alarm_fd(self) -> int:
        """Readable when the memory limit was hit; -1 where there is no such sign."""
        ...

    @property
    def started_ticks(self) -> int:
        """Start time of the main process, where that is needed to find it again; else 0."""
        ...

    def prepare(self, limits: Limits) -> None:
        """Set the limits of the next task. Raises OSError where the kernel refuses one."""
        ...

    def hold(self, pid: int, uid: int, mark: str) -> None:
        """`pid` was started in here: the main process, its user, and the mark it carries."""
        ...

    def processes(self) -> list[int]:
        """Live processes of the task, without zombies."""
        ...

    def is_empty(self) -> bool:
        """After the end of the main process: whether nothing is left of the task."""
        ...

    def kill(self) -> None:
        """Send SIGKILL to all; to be repeated until `is_empty`."""
        ...

    def cpu_s(self) -> float | None:
        """Processor time of the whole task; None where only `wait` tells."""
        ...

    def memory_peak_bytes(self) -> int | None:
        """Most memory in use at once; None where only `wait` tells."""
        ...

    def memory_kills(self) -> int:
        """Processes that the kernel killed for lack of memory."""
        ...

    def process_refusals(self) -> int:
        """How often the process limit refused a new process."""
        ...

    def sample(self) -> Use:
        """What is used at this moment, read from each process."""
        ...


class Containments(Protocol):
    """Provides containments."""

    def acquire(self) -> Containment:
        """An empty one. Raises OSError where none can be made."""
        ...

    def release(self, enclosure: Containment) -> None:
        """Give it back, empty."""
        ...

    def close(self) -> None:
        """Remove whatever was made."""
        ...
