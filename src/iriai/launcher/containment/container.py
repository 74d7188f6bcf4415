"""Containment of one task: a pooled control group, or the process tree."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple, Protocol

from iriai.model.bounds import KeyBytes, Words

if TYPE_CHECKING:
    from iriai.launcher.containment.paging import PagedMemory


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


class FreezerFile(NamedTuple):
    """The file by which a group is frozen and thawed, and the words for it."""

    path: Words
    frozen: KeyBytes
    thawed: KeyBytes


class Background(NamedTuple):
    """How background tasks are kept behind the owner's programs (docs/spec/016, section 3a)."""

    joins: tuple[str, ...]
    """Further options of iriai-exec, behind those of groups."""
    by: Words
    """The mechanism for the processor, in words for `doctor`."""
    note: Words = ""
    usual: str = ""
    """The parent of the groups that divide processor time among other tasks; empty: none."""
    idle: str = ""
    """The parent in its place: idle, and beside the owner's groups; empty: there is none."""
    disk: str = ""
    """A group that disks serve last; empty: there is none."""
    disk_usual: str = ""
    """Where processes are that are not in it."""
    by_session: bool = False
    """Whether each session has a nice value: those that tasks begin need one, too."""


class Containment:
    """The processes of one task, whatever they do to escape.

    The defaults are those of a containment for which the kernel neither limits nor counts anything.
    """

    number: int
    """Of the pooled group; -1 without one."""
    joins: tuple[str, ...]
    """Options of iriai-exec by which a process gets in, and is frozen with the others."""
    started_ticks = 0
    """Start time of the last main process, where that is needed to find it again; else 0."""
    is_lowered = False
    """Whether it is in the idle class."""

    @property
    def limits_memory(self) -> bool:
        """Whether the kernel keeps the memory limit and the peak."""
        return False

    @property
    def limits_processes(self) -> bool:
        """Whether the kernel keeps the process limit."""
        return False

    @property
    def alarm_fd(self) -> int:
        """Readable when the memory limit was hit; -1 where there is no such sign."""
        return -1

    def prepare(self, limits: Limits) -> None:
        """Set the limits of the next task. Raises OSError where the kernel refuses one."""

    def hold(self, pid: int, uid: int, mark: str) -> None:
        """Take in a main process `pid`, with its user and the mark it carries."""

    def processes(self) -> list[int]:
        """Return the live processes of the task, without zombies."""
        raise NotImplementedError

    def processes_since(self, since_s: float) -> list[int]:
        """Return the same as seen at `since_s` on the steady clock, or later."""
        del since_s
        return self.processes()

    def is_empty(self) -> bool:
        """Return whether nothing is left of the task, after the end of its main process."""
        raise NotImplementedError

    def kill(self) -> None:
        """Send SIGKILL to all; to be repeated until `is_empty`."""
        raise NotImplementedError

    @property
    def freezes_by_signals(self) -> bool:
        """Whether the task can notice, and others continue it: it needs to be looked after."""
        raise NotImplementedError

    def freeze(self, also: Collection[int], since_s: float) -> bool:
        """Freeze what runs; return whether there was nothing that the call before had not met.

        To be called until then, since processes fork. What joins later is frozen too, except by
        signals. `also` are processes of the task that may not have joined yet. Those are counted
        that are there at `since_s` on the steady clock, or later.
        """
        raise NotImplementedError

    def is_frozen(self, also: Collection[int], since_s: float) -> bool:
        """Return whether nothing of it runs at a moment from `since_s` on, after `freeze`."""
        raise NotImplementedError

    def thaw(self, also: Collection[int], since_s: float) -> None:
        """Let all of it go on that is there at a moment from `since_s` on."""
        raise NotImplementedError

    def lend_freezer(self) -> FreezerFile | None:
        """Let somebody else freeze and thaw it until the next `freeze` or `thaw`.

        Call it after `freeze`, once nothing new is found. None: it has no freezer.
        """
        return None

    def let_end(self, pids: Collection[int]) -> None:
        """Let processes end that were sent SIGKILL, although the task is frozen."""

    def paged_memory(self) -> PagedMemory:
        """Return the memory of the task, which stands, to be written to swap."""
        from iriai.launcher.containment.paging import ProcessMemory

        return ProcessMemory(self.processes())

    def forbid_swap(self) -> None:
        """Write no more of it to swap than there is."""

    def leave_idle(self, also: Collection[int]) -> None:
        """Take all of it out of the idle class, until another task has it. Raises OSError.

        `also` are processes of the task that may not have joined yet.
        """

    def cpu_s(self) -> float | None:
        """Return the processor time of the whole task; None where only `wait` tells."""
        return None

    def memory_peak_bytes(self) -> int | None:
        """Return the most memory in use at once; None where only `wait` and samples tell."""
        return None

    def memory_kills(self) -> int:
        """Return how many processes the kernel killed for lack of memory."""
        return 0

    def process_refusals(self) -> int:
        """Return how often the process limit refused a new process."""
        return 0

    def sample(self) -> Use:
        """Return what is used at this moment, read from each process."""
        raise NotImplementedError


class Containments(Protocol):
    """Provides containments."""

    def acquire(self, *, is_lowered: bool = False) -> Containment:
        """Return an empty containment, in the idle class if it is known how.

        Raises OSError where none can be made.
        """
        ...

    def release(self, container: Containment) -> None:
        """Take back an empty containment."""
        ...

    def close(self) -> None:
        """Remove whatever was made."""
        ...
