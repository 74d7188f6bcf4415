"""The group of a background task: in the idle class, until the task is to end (ADR 0123)."""

from __future__ import annotations

from collections.abc import Collection
from typing import cast

from iriai.launcher.containment.cgroups.controllers import read_pids
from iriai.launcher.containment.cgroups.freezer import move_processes
from iriai.launcher.containment.cgroups.pool import Pool, TaskGroup
from iriai.launcher.containment.container import Background, Limits
from iriai.launcher.containment.sessions import leave_idle, serve_as_others

LOOKS_MAX = 64
"""At the processes of a task that leaves; each may find some that were forked meanwhile."""


class LoweredGroup(TaskGroup):
    """A group whose part for the processor is below the idle parent.

    A group cannot be moved. So a task leaves by moving its processes to a second group, below the
    parent of other tasks: of the processor alone in version 1, of all controllers in version 2,
    where what was charged before stays with the first.
    """

    background: Background | None = None
    outside: Pool | None = None
    """Makes the second group; None: none is needed."""
    outer: TaskGroup | None = None
    """The second group; None: the task has not left."""
    lowered_joins: tuple[str, ...] = ()
    usual_joins: tuple[str, ...] = ()
    """Its own options while it is in the idle class, and after that."""
    has_left: bool = False

    @property
    def is_lowered(self) -> bool:  # type: ignore[override]
        """Whether it is in the idle class."""
        return not self.has_left

    def leave_idle(self, also: Collection[int]) -> None:
        """Take all of it out of the idle class. Raises OSError."""
        if self.has_left or self.background is None:
            return
        self.has_left = True
        if self.outside is not None:
            self.outer = self.outside.make(str(self.number), self.number)
            self.outer.prepare(self._limits or Limits(1, 0, 0))
        further = self.joins[len(self.own_joins) :]
        self.own_joins = self.usual_joins
        self.joins = (*self.own_joins, *further) if further else self.own_joins
        self._take_out(also, self.background)

    def _take_out(self, also: Collection[int], background: Background) -> None:
        met: dict[int, None] = {}
        for _ in range(LOOKS_MAX):
            fresh = [
                pid for pid in dict.fromkeys((*also, *self._left(background))) if pid not in met
            ]
            if not fresh:
                return
            self._move(fresh, background)
            met |= dict.fromkeys(fresh)

    def _left(self, background: Background) -> list[int]:
        """Return what is still in the idle class."""
        idle = f"{background.idle}/{self.number}"
        return read_pids(idle) if background.idle else TaskGroup.processes(self)

    def _move(self, pids: list[int], background: Background) -> None:
        if self.outer is not None:
            move_processes(pids, self.outer.directories[0])
        if background.disk:
            move_processes(pids, background.disk_usual)
        if background.by_session:
            leave_idle(pids)
        else:
            for pid in pids:
                serve_as_others(pid)

    # --- both groups together --------------------------------------------------------------------

    def processes(self) -> list[int]:
        """Return the live processes of the task, without zombies."""
        own = TaskGroup.processes(self)
        return own if self.outer is None else list(dict.fromkeys((*own, *self.outer.processes())))

    def is_empty(self) -> bool:
        """Return whether no process of the task is left."""
        return TaskGroup.is_empty(self) and (self.outer is None or self.outer.is_empty())

    def kill(self) -> None:
        """Send SIGKILL to all."""
        if self.has_left and self.background is not None:
            self._take_out((), self.background)  # what has joined since
        TaskGroup.kill(self)
        if self.outer is not None and self.outer.has_kill:
            self.outer.kill()

    def cpu_s(self) -> float | None:
        """Return the processor time of the whole task; None where only `wait` tells."""
        return _sum(TaskGroup.cpu_s(self), None if self.outer is None else self.outer.cpu_s())

    def memory_peak_bytes(self) -> int | None:
        """Return the most memory in use at once, in one of both."""
        own = TaskGroup.memory_peak_bytes(self)
        later = None if self.outer is None else self.outer.memory_peak_bytes()
        return own if own is None or later is None else max(own, later)

    def memory_kills(self) -> int:
        """Return how many processes the kernel killed for lack of memory."""
        later = 0 if self.outer is None else self.outer.memory_kills()
        return TaskGroup.memory_kills(self) + later

    def process_refusals(self) -> int:
        """Return how often the process limit refused a new process."""
        later = 0 if self.outer is None else self.outer.process_refusals()
        return TaskGroup.process_refusals(self) + later

    def reset(self) -> bool:
        """Be in the idle class again, for the next task; return False if none should follow."""
        self._come_back()
        return TaskGroup.reset(self)

    def close(self) -> None:
        """Close the open files and remove the groups, if they are empty."""
        self._come_back()
        TaskGroup.close(self)

    def _come_back(self) -> None:
        if self.outer is not None:
            self.outer.close()
            self.outer = None
        if self.has_left:
            self.has_left = False
            self.own_joins = self.joins = self.lowered_joins


def _sum(first: float | None, second: float | None) -> float | None:
    return first if first is None or second is None else first + second


def make_lowered(pool: Pool, background: Background, number: int) -> TaskGroup:
    """Make the group of a background task. Raises OSError if the kernel refuses."""
    usual, idle = background.usual, background.idle
    inside = pool.elsewhere(usual, idle) if idle else pool
    group = cast("LoweredGroup", inside.make(str(number), number, LoweredGroup))
    disk = (f"g={background.disk}/tasks",) if background.disk else ()
    group.background, group.outside = background, pool.only(usual) if idle else None
    usual_joins = (each.replace(f"g={idle}/", f"g={usual}/") for each in group.own_joins)
    group.usual_joins = tuple(usual_joins) if idle else group.own_joins
    group.lowered_joins = (*group.own_joins, *disk, *background.joins)
    group.own_joins = group.joins = group.lowered_joins
    return group
