"""Tasks without control groups: their processes are found by descent, session and mark.

Orphans of a task become children of the launcher, which is a subreaper. So nothing gets out of
sight, but whose an orphan is must be found out: by its session, else by the mark in its
environment, else by exclusion. An orphan that hides both belongs to the one task of its user that
was there when it began; where there are several it is left alone until only one of them is left.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress

from iriai.launcher.enclosure import Enclosure, Limits, Use
from iriai.launcher.environment import MARK
from iriai.launcher.processes import (
    Process,
    all_processes,
    children_of,
    marks_of,
    owner_of,
    read_process,
    sum_of,
)


class Tree:
    """The processes of one task."""

    number = -1
    joins: tuple[str, ...] = ()
    alarm_fd = -1
    limits_memory = False
    limits_processes = False

    def __init__(self, forest: Forest) -> None:
        self._forest = forest
        self.pid = 0
        self.uid = -1
        self.mark = b""
        self.started_ticks = 0

    def prepare(self, limits: Limits) -> None:
        """Nothing to be set; limits are sampled."""

    def hold(self, pid: int, uid: int, mark: str) -> None:
        """`pid` was started in here: the main process, its user, and the mark it carries."""
        process = read_process(pid)
        self.pid, self.uid, self.mark = pid, uid, mark.encode()
        self.started_ticks = process.started_ticks if process else 0
        self._forest.plant(self)

    def processes(self) -> list[int]:
        """Live processes of the task, without zombies."""
        return self._forest.processes_of(self)

    def is_empty(self) -> bool:
        """After the end of the main process: whether nothing is left of the task."""
        return not self._forest.orphans_of(self)

    def kill(self) -> None:
        """Send SIGKILL to all; to be repeated until `is_empty`."""
        for pid in self.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def cpu_s(self) -> float | None:
        """Unknown: `wait` tells."""
        return None

    def memory_peak_bytes(self) -> int | None:
        """Unknown: `wait` tells, and samples."""
        return None

    def memory_kills(self) -> int:
        """Nothing limits it."""
        return 0

    def process_refusals(self) -> int:
        """Nothing limits them."""
        return 0

    def sample(self) -> Use:
        """What is used at this moment, read from each process."""
        return Use(*sum_of(self.processes()))


class Forest:
    """All running tasks as trees of processes."""

    def __init__(self, own_pid: int) -> None:
        self._own_pid = own_pid
        self._trees: dict[int, Tree] = {}

    def acquire(self) -> Tree:
        """A tree for one task."""
        return Tree(self)

    def plant(self, tree: Tree) -> None:
        """The main process of `tree` exists now."""
        self._trees[tree.pid] = tree

    def release(self, enclosure: Enclosure) -> None:
        """The task of the tree is over."""
        assert isinstance(enclosure, Tree)
        if self._trees.get(enclosure.pid) is enclosure:
            del self._trees[enclosure.pid]

    def close(self) -> None:
        """Nothing was made."""

    def orphans_of(self, tree: Tree) -> list[int]:
        """Children of the launcher that `tree` left behind, without zombies."""
        found = []
        for pid in children_of(self._own_pid):
            if pid in self._trees:
                continue
            process = read_process(pid)
            if process and process.is_live and self._owner(process) is tree:
                found.append(pid)
        return found

    def processes_of(self, tree: Tree) -> list[int]:
        """Live processes of `tree`: those below its roots, and those of its session."""
        children: dict[int, list[int]] = {}
        live: set[int] = set()
        pending = [tree.pid, *self.orphans_of(tree)]
        for process in all_processes():
            if process.is_live:
                live.add(process.pid)
                children.setdefault(process.parent, []).append(process.pid)
                if process.session == tree.pid:
                    pending.append(process.pid)
        seen: dict[int, None] = {}
        while pending:
            pid = pending.pop()
            if pid in live and pid not in seen:
                seen[pid] = None
                pending.extend(children.get(pid, ()))
        return list(seen)

    def _owner(self, process: Process) -> Tree | None:
        by_session = self._trees.get(process.session)
        if by_session is not None:
            return by_session
        possible = [
            tree for tree in self._trees.values() if tree.started_ticks <= process.started_ticks
        ]
        marks = marks_of(process.pid, MARK.encode())
        for tree in possible:
            if tree.mark in marks:
                return tree
        uid = owner_of(process.pid)
        possible = [tree for tree in possible if tree.uid == uid]
        return possible[0] if len(possible) == 1 else None
