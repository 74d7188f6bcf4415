"""`iriai down` where no daemon answers: supervisor, daemon and launcher are ended directly.

A process is signalled only while it holds the lock of its part, in a file that belongs to the
caller: a process id alone may be another process by now, or be what somebody else wrote.
"""

from __future__ import annotations

import signal
from typing import NamedTuple

from iriai.model.paths import StatePaths
from iriai.model.problem import NotAllowed, Unreachable
from iriai.state.state_directory import absolute_paths
from iriai.supervisor.supervisor import STOP_WAIT_S
from iriai.system.lock_file import adopt_holder

END_WAIT_S = 60.0
"""For a part to end: tasks get their grace first, at most 5 s, then the launcher cleans up; the
supervisor gives its daemon `STOP_WAIT_S`."""


class EndedProcesses(NamedTuple):
    """The process ids of the parts that were ended; None for a part that did not run."""

    supervisor_pid: int | None
    daemon_pid: int | None
    launcher_pid: int | None


def end_processes(directory: str, *, kill: bool) -> EndedProcesses | None:
    """End what runs for a state directory: first the supervisor, which would start the rest again.

    With `kill` the launcher ends too, with every task. Returns None if nothing ran. Raises a
    `Problem` if this is not permitted, or a process does not end.
    """
    paths = absolute_paths(directory)
    try:
        supervisor = _end(paths, "supervisor")
        daemon = _end(paths, "daemon")  # one that no supervisor watched
        ended = EndedProcesses(supervisor, daemon, _end(paths, "launcher") if kill else None)
    except PermissionError:
        raise NotAllowed(
            "not-your-daemon",
            f"the processes of {directory} belong to another user",
            "run the command as the owner of that directory",
        ) from None
    return ended if any(ended) else None


def _end(paths: StatePaths, part: str) -> int | None:
    """End the process that is `part`; return its id, or None if there is none."""
    process = adopt_holder(paths.lock(part))
    if process is None:
        return None
    process.send(signal.SIGTERM)
    process.send(signal.SIGCONT)  # it may be stopped
    ended = process.ended(STOP_WAIT_S if part == "daemon" else END_WAIT_S)
    if not ended and part == "daemon":  # what it has accepted is durable
        process.send(signal.SIGKILL)
        ended = process.ended(END_WAIT_S)
    process.exit_code()
    if not ended:
        raise Unreachable(
            "still-ending",
            f"the {part}, process {process.pid}, has not ended for {END_WAIT_S:.0f} s",
            f"see {paths.log_of(part)}",
        )
    return process.pid
