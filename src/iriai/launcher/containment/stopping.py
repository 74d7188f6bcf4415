"""Stops processes by SIGSTOP, where no freezer of the kernel can be used.

Unlike those of a freezer, they notice: whoever waits for a child can see it stopped, a handler of
SIGCONT runs when they go on, and anybody who may signal them can continue them before.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable

from iriai.system.clock import steady_s
from iriai.system.procfs import Process

HALTS = "h="
"""The option of iriai-exec by which a process stops itself before it becomes the program."""


class StoppedProcesses:
    """The processes of one task that were sent SIGSTOP since it was last thawed."""

    def __init__(self) -> None:
        self._sent: dict[tuple[int, int], None] = {}
        """Pid and start time."""
        self._stood_s: float | None = None
        """When all that was found stood for the first time since; None: not yet."""

    def stop(self, found: Iterable[Process]) -> bool:
        """Stop all of `found` that were not; return whether none of them was new.

        What was sent SIGSTOP cannot fork any more, but may have begun to: a child that is not
        among `found` may be there by the next look.
        """
        has_new = False
        for process in found:
            key = process.pid, process.started_ticks
            if key not in self._sent:
                self._sent[key] = None
                has_new = True
            elif not _runs(process):
                continue
            _signal(process.pid, signal.SIGSTOP)
        return not has_new

    def stand(self, found: Iterable[Process], begun_s: float) -> bool:
        """Return whether nothing of the task runs; `found` is what a look begun then has found.

        What is found to stand has no fork under way any more; a child that it had forked may have
        been missed by the same look, but not by one that begins later. So it takes two.
        """
        if any(map(_runs, found)):
            self._stood_s = None
            return False
        if self._stood_s is None:
            self._stood_s = steady_s()
            return False
        return begun_s >= self._stood_s

    def proceed(self, found: Iterable[Process]) -> None:
        """Let all of `found` go on."""
        self._stood_s = None
        self._sent.clear()
        for process in found:
            _signal(process.pid, signal.SIGCONT)


def _runs(process: Process) -> bool:
    """Return whether a process may execute something of its program, once it was sent SIGSTOP.

    What waits uninterruptibly is stopped before it goes on.
    """
    return process.state not in "TtDZX"


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):  # it ended, or became another user's
        return


def await_halt(pid: int) -> None:
    """Wait until a child that was started with `HALTS` has stopped itself, or has ended.

    Else it might be continued before it stops, and stand for ever.
    """
    os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
