"""Tasks without control groups: their processes are found by descent, session and mark.

Orphans of a task become children of the launcher, which is a subreaper. So nothing gets out of
sight, but whose an orphan is must be found out: by its session, else among the tasks of its user
by the mark in its environment, else by exclusion. Anybody can have any mark, but not another's
user id, so the mark says nothing until that is known. An orphan that hides both belongs to the one
task of its user that was there when it began; where there are several it is left alone until only
one of them is left.
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Collection, Container, Iterable
from typing import cast

from iriai.launcher.containment.container import Background, Containment, Use
from iriai.launcher.containment.stopping import HALTS, StoppedProcesses
from iriai.launcher.environment.environment import MARK
from iriai.system.clock import steady_s
from iriai.system.procfs import (
    Process,
    all_processes,
    children_of,
    marks_of,
    read_process,
    read_processes,
    user_of,
)

log = logging.getLogger(__name__)

SNAPSHOT_KEPT_S = 0.05
"""How old a snapshot of all processes may be for a sample, so that the samples of many tasks, which
are due at the same moments, share one."""


class LiveProcesses:
    """All live processes at one moment."""

    def __init__(self) -> None:
        self.taken_s = steady_s()
        self.processes: dict[int, Process] = {}
        self.children: dict[int, list[Process]] = {}
        self.sessions: dict[int, list[Process]] = {}
        for process in all_processes():
            if process.is_live:
                self.processes[process.pid] = process
                self.children.setdefault(process.parent, []).append(process)
                self.sessions.setdefault(process.session, []).append(process)

    def below(self, roots: Iterable[Process]) -> list[Process]:
        """Return `roots` and all their descendants, each once, a parent before its children."""
        seen: dict[int, Process] = {}
        pending = list(roots)
        for process in pending:  # grows while it is walked
            if process.pid not in seen:
                seen[process.pid] = process
                pending.extend(self.children.get(process.pid, ()))
        return list(seen.values())


class ProcessTree(Containment):
    """The processes of one task: those of each main process."""

    number = -1
    joins: tuple[str, ...] = ()
    own_joins: tuple[str, ...] = ()
    """By which it gives way."""

    def __init__(self, trees: ProcessTrees) -> None:
        self._trees = trees
        self.mains: dict[int, int] = {}
        """Start time of each main process, by pid."""
        self.begun_ticks = 0
        """Start time of the first of them."""
        self.uid = -1
        self.mark = b""
        self._stopped: StoppedProcesses | None = None
        """None: it was never frozen."""

    def hold(self, pid: int, uid: int, mark: str) -> None:
        """Take in the main process `pid`, with its user and the mark it carries."""
        process = read_process(pid)
        self.uid, self.mark = uid, mark.encode()
        self.started_ticks = process.started_ticks if process else 0
        if not self.mains:
            self.begun_ticks = self.started_ticks
        self.mains[pid] = self.started_ticks
        self._trees.add(self, pid)

    def processes(self) -> list[int]:
        """Return the live processes of the task, without zombies."""
        return [process.pid for process in self._trees.processes_of(self, LiveProcesses())]

    def processes_since(self, since_s: float) -> list[int]:
        """Return the same as seen at `since_s` on the steady clock, or later."""
        return [process.pid for process in self._all((), since_s)]

    def is_empty(self) -> bool:
        """Return whether nothing is left of the task, after the end of its main process."""
        return not self._trees.has_orphans(self)

    def kill(self) -> None:
        """Send SIGKILL to all; to be repeated until `is_empty`."""
        for process in self._trees.processes_of(self, LiveProcesses()):
            try:
                os.kill(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
            except PermissionError:
                self._trees.give_up_on(process)

    @property
    def freezes_by_signals(self) -> bool:
        """Whether the task can notice, and others continue it: it needs to be looked after."""
        return True

    def freeze(self, also: Collection[int], since_s: float) -> bool:
        """Stop what runs; return whether there was nothing that the call before had not met."""
        if self._stopped is None:
            self._stopped = StoppedProcesses()
        self.joins = (*self.own_joins, HALTS)
        return self._stopped.stop(self._all(also, since_s))

    def is_frozen(self, also: Collection[int], since_s: float) -> bool:
        """Return whether nothing of it runs at a moment from `since_s` on, after `freeze`."""
        begun_s = self._trees.snapshot_since(since_s).taken_s
        return self._stopped is not None and self._stopped.stand(self._all(also, since_s), begun_s)

    def thaw(self, also: Collection[int], since_s: float) -> None:
        """Let all of it go on that is there at a moment from `since_s` on."""
        self.joins = self.own_joins
        if self._stopped is not None:
            self._stopped.proceed(self._all(also, since_s))

    def leave_idle(self, also: Collection[int]) -> None:
        """Take all of it out of the idle class."""
        from iriai.launcher.containment.sessions import leave_idle

        self.is_lowered = False
        self.joins = tuple(each for each in self.joins if each not in self.own_joins)
        self.own_joins = ()
        leave_idle([process.pid for process in self._all(also, steady_s())])

    def _all(self, also: Collection[int], since_s: float) -> list[Process]:
        """Return its live processes, a parent before its children, with those of `also`."""
        return self._trees.processes_of(self, self._trees.snapshot_since(since_s), also)

    def sample(self) -> Use:
        """Return what is used at this moment, or SNAPSHOT_KEPT_S before."""
        snapshot = self._trees.snapshot_since(steady_s() - SNAPSHOT_KEPT_S)
        processes = self._trees.processes_of(self, snapshot)
        return Use(
            sum(process.cpu_s for process in processes),
            sum(process.memory_bytes for process in processes),
            len(processes),
        )


class ProcessTrees:
    """All running tasks as trees of processes."""

    def __init__(self, own_pid: int) -> None:
        self._own_pid = own_pid
        self._trees: dict[int, ProcessTree] = {}
        self._foreign: set[tuple[int, int]] = set()
        """Pid and start time of processes that cannot be ended."""
        self._others: tuple[Container[int], ...] = ()
        """Sessions of children that are no tasks."""
        self._snapshot: LiveProcesses | None = None
        self._background: Background | None = None

    def lower(self, background: Background) -> None:
        """Have those that are acquired for background tasks be in the idle class."""
        self._background = background

    def acquire(self, *, is_lowered: bool = False) -> ProcessTree:
        """Return a tree for one task."""
        tree = ProcessTree(self)
        if is_lowered and self._background is not None:
            tree.is_lowered = True
            tree.joins = tree.own_joins = self._background.joins
        return tree

    def add(self, tree: ProcessTree, pid: int) -> None:
        """Add a main process of `tree`, which exists now."""
        self._trees[pid] = tree

    def release(self, container: Containment) -> None:
        """Drop the tree of a task that is over."""
        tree = cast("ProcessTree", container)  # of `acquire`
        for pid in tree.mains:
            if self._trees.get(pid) is tree:
                del self._trees[pid]

    def close(self) -> None:
        """Do nothing: nothing was made."""

    def give_up_on(self, process: Process) -> None:
        """Stop waiting for the end of a process that became another user's (by a setuid file)."""
        log.warning("process %d cannot be ended: it belongs to another user", process.pid)
        self._foreign.add((process.pid, process.started_ticks))

    def exclude_sessions(self, *sessions: Container[int]) -> None:
        """Count no process in one of `sessions` as a task's; the collections may change."""
        self._others = sessions

    def snapshot_since(self, moment_s: float) -> LiveProcesses:
        """Return a snapshot that was begun at `moment_s` on the steady clock, or later."""
        if self._snapshot is None or self._snapshot.taken_s < moment_s:
            self._snapshot = LiveProcesses()
        return self._snapshot

    def has_orphans(self, tree: ProcessTree) -> bool:
        """Return whether `tree` left a live child of the launcher behind."""
        pids = [pid for pid in children_of(self._own_pid) if pid not in self._trees]
        return bool(pids) and bool(self._orphans(tree, read_processes(pids)))

    def processes_of(
        self, tree: ProcessTree, snapshot: LiveProcesses, also: Iterable[int] = ()
    ) -> list[Process]:
        """Return the live processes of `tree`: main processes, their sessions and its orphans.

        The main process comes first. `also` are leaders of other sessions that belong to it.
        """
        roots: list[Process] = []
        for pid, ticks in tree.mains.items():
            main = snapshot.processes.get(pid)
            if main is None or main.started_ticks == ticks:  # else it was reused
                roots += [main] if main else []
                roots += snapshot.sessions.get(pid, ())
        for pid in also:
            roots += [snapshot.processes[pid]] if pid in snapshot.processes else []
            roots += snapshot.sessions.get(pid, ())
        roots += self._orphans(tree, snapshot.children.get(self._own_pid, ()))
        return snapshot.below(roots)

    def _orphans(self, tree: ProcessTree, children: Iterable[Process]) -> list[Process]:
        return [
            process
            for process in children
            if process.pid not in self._trees
            and process.is_live
            and not any(process.session in each for each in self._others)
            and (process.pid, process.started_ticks) not in self._foreign
            and self._owner(process) is tree
        ]

    def _owner(self, process: Process) -> ProcessTree | None:
        by_session = self._trees.get(process.session)
        if by_session is not None:
            return by_session
        uid = user_of(process.pid)
        possible = [
            tree
            for tree in dict.fromkeys(self._trees.values())
            if tree.uid == uid and tree.begun_ticks <= process.started_ticks
        ]
        if not possible:
            return None
        marks = marks_of(process.pid, MARK.encode())
        for tree in possible:
            if tree.mark in marks:
                return tree
        return possible[0] if len(possible) == 1 else None
