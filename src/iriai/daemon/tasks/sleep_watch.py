"""Has tasks leave a machine with an owner before it sleeps or is shut down (docs/spec/016)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from iriai.protocol.messages.effects import MachineSleeps, MachineWakes, OwnerEvent
from iriai.system.extras import EXTRAS
from iriai.system.internal_errors import guarded

if TYPE_CHECKING:
    from iriai.host.logind import Logind

log = logging.getLogger(__name__)

RETRY_S = 60.0
"""Until the next trial to reach the login manager."""
MARGIN = 0.2
"""The part of the delay in which ends are stored and told."""
LOOK_S = 0.02
"""Between two looks whether tasks still stand."""
WHY = "tasks of others leave first"


class SleepWatch:
    """Holds the login manager's lock while tasks may run, and lets go when they have left."""

    def __init__(self, tell: Callable[[OwnerEvent], None], is_left: Callable[[], bool]) -> None:
        """`tell` takes events for the node; `is_left` says whether no background task is there."""
        self._tell = tell
        self._is_left = is_left
        self._loop = asyncio.get_running_loop()
        self._logind: Logind | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False
        self.problem = "the login manager was not asked yet"
        """Why nobody would know that the machine is about to sleep; empty: it is known."""

    def begin(self) -> None:
        """Connect, in a thread: that takes as long as the bus takes."""
        self._timer = None
        try:
            from iriai.host.logind import Logind
        except ImportError:
            self.problem = f"{EXTRAS['owner'][0]} is missing: pip install 'iriai[owner]'"
            return
        self._loop.run_in_executor(None, Logind, WHY).add_done_callback(self._connected)

    def close(self) -> None:
        """Let the machine sleep when it likes."""
        self._is_closed = True
        self._drop()

    def _connected(self, made: asyncio.Future[Logind]) -> None:
        from iriai.host.logind import LogindProblem

        try:
            logind = made.result()
        except LogindProblem as problem:
            self._retry(str(problem))
            return
        if self._is_closed:
            logind.close()
            return
        self._logind, self.problem = logind, ""
        self._loop.add_reader(logind.fileno(), guarded("the login manager", self._read))

    def _read(self) -> None:
        from iriai.host.logind import LogindProblem

        logind = self._logind
        if logind is None:
            return
        try:
            signals = logind.signals()
        except LogindProblem as problem:
            self._drop()
            self._tell(MachineWakes())
            self._retry(str(problem))
            return
        for goes in signals:
            if goes:
                delay_s = logind.delay_max_s * (1.0 - MARGIN)
                log.info("the machine is about to sleep or to be shut down")
                self._tell(MachineSleeps(delay_s))
                self._release_when_left(logind)
            else:
                log.info("the machine is awake")
                self._tell(MachineWakes())
                self._drop()
                self.begin()  # with a new lock

    def _release_when_left(self, logind: Logind) -> None:
        """Look again and again; the manager waits for its delay at most, whatever is done here."""
        if logind is not self._logind:
            return
        if self._is_left():
            logind.release()
        else:
            self._timer = self._loop.call_later(LOOK_S, self._release_when_left, logind)

    def _retry(self, problem: str) -> None:
        self.problem = problem
        if not self._is_closed:
            self._timer = self._loop.call_later(RETRY_S, self.begin)

    def _drop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._logind is not None:
            self._loop.remove_reader(self._logind.fileno())
            self._logind.close()
            self._logind = None
