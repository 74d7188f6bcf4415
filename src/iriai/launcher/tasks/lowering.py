"""Background tasks in the idle class: which of them are, and that they stay there (ADR 0123)."""

from __future__ import annotations

import socket
from contextlib import suppress

from iriai.launcher.containment.container import Background
from iriai.launcher.containment.sessions import LOWEST, set_nice
from iriai.launcher.contract.messages import LOWERING, Enforcement
from iriai.launcher.owner.lowering_probe import ANSWER_BYTES, fork_probe, kept_of
from iriai.launcher.tasks.parts import LauncherParts
from iriai.launcher.tasks.tasks import Tasks
from iriai.model.ids import AttemptId
from iriai.system.clock import steady_s

LOOK_S = 1.0
"""Between two looks for sessions that tasks have begun, where their nice value is what counts.
Sooner would notice sooner, and a look reads all processes."""
AGAIN_S = 0.12
"""The same once the kernel has refused one: it takes ten a second of ordinary users."""


class TaskLowering:
    """Begun with the first order that lowers; the launchers of other machines have none."""

    is_over = False
    """It is the subject of its timer."""

    def __init__(self, parts: LauncherParts, tasks: Tasks, background: Background) -> None:
        self.background = background
        self._tasks = tasks
        self._owner = parts.owner
        self._timers = parts.timers
        self._is_planned = False
        self._left: dict[AttemptId, None] = {}
        """Those that run and do not give way any more."""
        self._watch = parts.watch
        self._probe: socket.socket | None = None
        """Of the process that measures; None: there is none."""
        self._kept = ""
        """What was measured, in words."""
        self.has_news = True
        """Whether the daemon is to be told `enforcement`."""

    def follow(self) -> None:
        """Do as the standing order says now about what runs."""
        now_s = steady_s()
        for task in self._tasks:
            if task.container.is_lowered and not self._owner.puts_behind(task.attempt):
                self._tasks.leave_idle(task)
                if self.background.by_session:
                    self._left[task.attempt] = None
        if self.background.by_session and not self._is_planned:
            self._plan(now_s + LOOK_S)

    def enforcement(self) -> Enforcement:
        """Return how tasks are kept behind the owner's programs, for `doctor`."""
        self.has_news = False
        notes = self._kept, self.background.note
        return Enforcement(LOWERING, self.background.by, "; ".join(filter(None, notes)))

    # --- what the owner keeps --------------------------------------------------------------------

    def measure(self) -> None:
        """Have it measured what a busy owner keeps; `has_news` once it is."""
        if self._probe is not None:
            self.has_news = True
            return
        try:
            _, self._probe = fork_probe(self.background)
        except OSError as error:
            self._measured(f"not measured: {error.strerror}")
            return
        self._watch.begin(self._probe.fileno(), self._receive)

    def _receive(self) -> None:
        if self._probe is None:
            return
        answer = b""
        with suppress(OSError):
            answer = self._probe.recv(ANSWER_BYTES)
        self._watch.end(self._probe.fileno())
        self._probe.close()
        self._probe = None
        kept = kept_of(answer)
        words = "not measured" if kept is None else f"a busy owner keeps {kept:.1f} %"
        self._measured(words)

    def _measured(self, words: str) -> None:
        self._kept, self.has_news = words, True

    # --- sessions --------------------------------------------------------------------------------

    def _plan(self, due_s: float) -> None:
        self._is_planned = self._owner.lowers
        if self._is_planned:
            self._timers.add(due_s, self, self._look)

    def _look(self, now_s: float) -> None:
        """Have all sessions of background tasks be behind others, but for those that end."""
        is_done = True
        self._left = {each: None for each in self._left if self._tasks.get(each) is not None}
        for task in self._tasks:
            is_lowered = task.container.is_lowered
            if is_lowered or task.is_ending or task.attempt in self._left:
                nice = LOWEST if is_lowered else 0
                for pid in task.container.processes_since(now_s):
                    is_done = set_nice(pid, nice) and is_done
        self._plan(now_s + (LOOK_S if is_done else AGAIN_S))
