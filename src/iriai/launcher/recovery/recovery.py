"""Recovery of a new launcher before it listens: end orphans, report attempts as lost."""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress

from iriai.launcher.containment.cgroups.controllers import read_pids, stop_growth
from iriai.launcher.containment.cgroups.freezer import thaw_survivors
from iriai.launcher.contract.messages import Exit
from iriai.launcher.environment.environment import MARK
from iriai.launcher.hooks.hooks import HOOK
from iriai.launcher.journal.journal import Boot, Exits, Journal, JournalState
from iriai.model.ids import AttemptId
from iriai.model.state import EndCause
from iriai.model.usage import Usage
from iriai.system.clock import wall_s
from iriai.system.procfs import Process, all_processes, marks_of, user_of

_POLL_S = 0.01
_COMPLAIN_S = 10.0


class Orphans:
    """Searches for what an earlier launcher left running, by journal and control groups.

    Control groups define exactly who belongs to a task. A process that its launcher spawned and
    that had not joined yet runs nothing: it checks for its parent after joining and ends if that
    has ended. It is found all the same, by the mark that it carries for its task. Without control
    groups the search goes by session (of a process known by pid, start time and boot) and by the
    mark in the environment.
    """

    def __init__(self, known: JournalState, launcher_mark: str, parents: Iterable[str]) -> None:
        """`parents` are parent groups, of this launcher and of earlier ones."""
        self._known = known
        self._parents = tuple(dict.fromkeys(parents))
        self._own_pid = os.getpid()
        self._by_mark = {
            f"{launcher_mark}/{attempt}".encode(): attempt for attempt in known.intents
        }
        self._by_session = {
            alive.pid: (attempt, ticks)
            for attempt, (alive, ticks) in known.started.items()
            if ticks
        }
        self._by_session |= {
            pid: (attempt, ticks) for attempt, found in known.ranks.items() for pid, ticks in found
        }
        self._by_slot = {str(each.slot): attempt for attempt, each in known.intents.items()}
        self._hook_mark = f"{launcher_mark}/hook".encode()
        self._foreign: set[int] = set()
        self.attempts: set[AttemptId] = set()
        """Attempts with a process that was still running."""

    def end_all(self) -> int:
        """Kill until nothing is left; return the number of processes found.

        What is frozen in a group of version 1 ends once it is thawed, with SIGKILL before it.
        """
        met: set[int] = set()
        complain_s = time.monotonic() + _COMPLAIN_S
        while found := self._find():
            met.update(found)
            for pid in found:
                self._kill(pid)
            for directory, _ in self._slots():
                thaw_survivors(directory)
            if time.monotonic() > complain_s:
                complain_s += _COMPLAIN_S
                log.warning("waiting for the end of processes %s", sorted(found))
            time.sleep(_POLL_S)
        for directory, _ in self._slots():
            with suppress(OSError):
                os.rmdir(directory)
        return len(met)

    def _find(self) -> list[int]:
        """Return all that still runs."""
        found = list(self._in_groups())
        if self._by_mark or self._known.owed:
            processes = [each for each in all_processes() if each.is_live]
            started = {each.pid: each.started_ticks for each in processes}
            for process in processes:
                attempt = self._of_session(process, started) or self._of_mark(process)
                if attempt and process.pid != self._own_pid and process.pid not in self._foreign:
                    self.attempts.add(attempt)
                    found.append(process.pid)
                elif self._is_hook(process):
                    found.append(process.pid)
        return list(dict.fromkeys(found))

    def _in_groups(self) -> Iterator[int]:
        for directory, name in self._slots():
            with suppress(FileNotFoundError):
                pids = read_pids(directory)
                if pids:
                    stop_growth(directory)
                    if name in self._by_slot:
                        self.attempts.add(self._by_slot[name])
                yield from pids

    def _slots(self) -> list[tuple[str, str]]:
        """Return every group below every parent, and its name there."""
        found = []
        for parent in self._parents:
            with suppress(FileNotFoundError), os.scandir(parent) as entries:
                found += [(entry.path, entry.name) for entry in entries if entry.is_dir()]
        return found

    def _of_session(self, process: Process, started: dict[int, int]) -> AttemptId | None:
        """Return the attempt of the session of `process`, if its leader is ours or has ended.

        The number of a session is given to no other process as long as the session has members.
        """
        found = self._by_session.get(process.session)
        if found is None:
            return None
        attempt, ticks = found
        is_ours = started.get(process.session, ticks) == ticks
        return attempt if is_ours and self._is_user_of(process, attempt) else None

    def _of_mark(self, process: Process) -> AttemptId | None:
        """Return the attempt whose mark `process` carries; see iriai-exec.c for the colon."""
        for name in (MARK, ":" + MARK):
            for mark in marks_of(process.pid, name.encode()):
                attempt = self._by_mark.get(mark)
                if attempt is not None and self._is_user_of(process, attempt):
                    return attempt
        return None

    def _is_hook(self, process: Process) -> bool:
        """Return whether `process` belongs to a prolog or epilog."""
        is_ours = user_of(process.pid) == os.geteuid() and process.pid not in self._foreign
        return is_ours and self._hook_mark in marks_of(process.pid, HOOK.encode())

    def _is_user_of(self, process: Process, attempt: AttemptId) -> bool:
        """Return whether `process` is the task's user's, or still the launcher's."""
        return user_of(process.pid) in (self._known.intents[attempt].uid, os.geteuid())

    def _kill(self, pid: int) -> None:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            return
        except PermissionError:
            log.warning("process %d cannot be ended: it belongs to another user", pid)
            self._foreign.add(pid)


log = logging.getLogger(__name__)


def recover(journal: Journal, boot_id: str, parents: tuple[str, ...], launcher_mark: str) -> None:
    """Update the journal for this boot; return once no survivor is left.

    `parents` are this launcher's parent control groups. Raises OSError where the journal cannot be
    written.
    """
    known = journal.known
    is_same_boot = known.boot is not None and known.boot.boot_id == boot_id
    earlier = known.boot.parents if known.boot and is_same_boot else ()
    search = Orphans(known if is_same_boot else JournalState(), launcher_mark, (*parents, *earlier))
    count = search.end_all()
    if count:
        log.warning("ended %d processes that an earlier launcher left running", count)
    lost = tuple(
        _lost(known, attempt, journal.modified_wall_s, survived=attempt in search.attempts)
        for attempt in known.intents
    )
    records = (Boot(boot_id, parents), *((Exits(lost),) if lost else ()))
    journal.append(*records, sync=True)
    journal.compact()
    if lost:
        log.warning("%d attempts are lost", len(lost))


def _lost(
    known: JournalState, attempt: AttemptId, last_seen_wall_s: float, *, survived: bool
) -> Exit:
    """Return the end of an attempt about which nothing more is known.

    It counts as running until now if something of it still ran, else until the journal was last
    written: the last moment at which its launcher is known to have existed. The time in which it
    was frozen is in that: the journal does not know of it.
    """
    alive = known.started.get(attempt)
    began_wall_s = alive[0].started_wall_s if alive else known.intents[attempt].wall_s
    ended_wall_s = max(began_wall_s, wall_s() if survived else last_seen_wall_s)
    return Exit(
        attempt,
        EndCause.LOST,
        None,
        None,
        Usage(),
        began_wall_s,
        ended_wall_s,
        ended_wall_s - began_wall_s,
        "the launcher ended while this attempt was in progress",
    )
