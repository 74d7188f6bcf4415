"""Stops all processes of tasks, however fast they fork."""

from __future__ import annotations

from iriai.launcher.tasks.parts import ENDED, LauncherParts
from iriai.launcher.tasks.task import LimitExceeded, RunningTask
from iriai.launcher.tasks.tasks import Tasks
from iriai.model.state import EndCause
from iriai.system.clock import steady_s

LOOKS_MAX = 64
"""At the processes of a task for one freeze; each may find some that were forked meanwhile."""
KEEPS_FORKING = LimitExceeded(
    EndCause.FAILED,
    "it could not be suspended: its processes forked others faster than they could be stopped "
    f"(LOOKS_MAX = {LOOKS_MAX})",
)


class TaskFreezing:
    """Freezes whole tasks; one that cannot be frozen ends."""

    def __init__(self, parts: LauncherParts, tasks: Tasks) -> None:
        self._parts = parts
        self._tasks = tasks

    def freeze(self, tasks: list[RunningTask]) -> None:
        """Freeze `tasks`, all in turn, since what is looked at serves all of them."""
        left = tasks
        for _ in range(LOOKS_MAX):
            since_s = steady_s()
            left = [task for task in left if self._has_more(task, since_s)]
            if not left:
                break
        now_s = steady_s()
        for task in left:
            self._tasks.end(task, KEEPS_FORKING, 0.0, now_s)

    def also(self, task: RunningTask) -> list[int]:
        """Return the main processes of a task and of its steps: some may not have joined it."""
        return [*task.unreaped, *self._tasks.steps.pids_of(task.attempt)]

    def give_up(self, task: RunningTask, doing: str, error: Exception, now_s: float) -> None:
        """End a task with which that failed."""
        words = self._parts.defects.record(f"{doing} {task.attempt}", error, ENDED)
        self._tasks.give_up(task, words, now_s)

    def _has_more(self, task: RunningTask, since_s: float) -> bool:
        """Freeze what is there; return whether another look may find more."""
        try:
            return not task.container.freeze(self.also(task), since_s)
        except Exception as error:  # noqa: BLE001 - it costs this attempt alone
            self.give_up(task, "freezing", error, since_s)
            return False
