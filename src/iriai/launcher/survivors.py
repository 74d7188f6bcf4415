"""Finds and ends what an earlier launcher left running, before anything else happens.

Control groups say exactly who belongs to a task. A process that its launcher spawned and that had
not joined yet runs nothing: it looks for its parent after joining and ends where that is gone. It
is found all the same, by the mark that it carries for its task. Without control groups the search
goes by session (of a process known by pid, start time and boot) and by the mark in the environment.
"""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Iterable
from contextlib import suppress

from iriai.launcher.environment import MARK
from iriai.launcher.groups.files import read_pids
from iriai.launcher.journal import Known
from iriai.launcher.processes import Process, all_processes, marks_of, owner_of
from iriai.model.ids import AttemptId

log = logging.getLogger(__name__)

_POLL_S = 0.01
_COMPLAIN_S = 10.0


class Survivors:
    """The search, by what the journal and the control groups know."""

    def __init__(self, known: Known, launcher_mark: str, parents: Iterable[str]) -> None:
        """`parents` are parent groups, of this launcher and of earlier ones."""
        self._known = known
        self._parents = tuple(dict.fromkeys(parents))
        self._by_mark = {
            f"{launcher_mark}/{attempt}".encode(): attempt for attempt in known.intents
        }
        self._ticks = {alive.pid: ticks for alive, ticks in known.started.values() if ticks}
        self.attempts: set[AttemptId] = set()
        """Of which something was still running."""

    def end_all(self) -> int:
        """Kill until nothing is left; returns how many processes it met."""
        met: set[int] = set()
        complain_s = time.monotonic() + _COMPLAIN_S
        while found := self.find():
            met.update(found)
            for pid in found:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if time.monotonic() > complain_s:
                complain_s += _COMPLAIN_S
                log.warning("waiting for the end of processes %s", sorted(found))
            time.sleep(_POLL_S)
        self._remove_groups()
        return len(met)

    def find(self) -> list[int]:
        """All that still runs."""
        found = [pid for directory in self._groups() for pid in read_pids(directory)]
        if self._by_mark:
            own = os.getpid()
            processes = [each for each in all_processes() if each.is_live and each.pid != own]
            sessions = self._surviving_sessions(processes)
            found += [
                each.pid
                for each in processes
                if each.session in sessions or self._carries_mark(each)
            ]
        return list(dict.fromkeys(found))

    def _groups(self) -> list[str]:
        """Every slot below every parent."""
        found = []
        for parent in self._parents:
            with suppress(FileNotFoundError), os.scandir(parent) as entries:
                found += [entry.path for entry in entries if entry.is_dir()]
        return found

    def _surviving_sessions(self, processes: list[Process]) -> set[int]:
        """Sessions of ours: their leader is the one that was started, or gone.

        The number of a session is not given to another process as long as it has members.
        """
        started = {each.pid: each.started_ticks for each in processes}
        return {pid for pid, ticks in self._ticks.items() if started.get(pid, ticks) == ticks}

    def _carries_mark(self, process: Process) -> bool:
        # The colon is there until the task begins; see iriai-exec.c.
        for name in (MARK, ":" + MARK):
            for mark in marks_of(process.pid, name.encode()):
                attempt = self._by_mark.get(mark)
                if attempt is None:
                    continue
                if owner_of(process.pid) in (self._known.intents[attempt].uid, os.geteuid()):
                    self.attempts.add(attempt)
                    return True
        return False

    def _remove_groups(self) -> None:
        for directory in self._groups():
            with suppress(OSError):
                os.rmdir(directory)
