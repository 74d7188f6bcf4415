"""The launcher that an `iriai down` left running with its tasks, ended without a daemon."""

from __future__ import annotations

import signal

from iriai.daemon.startup.state_directory import absolute_paths
from iriai.model.problem import NotAllowed, Unreachable
from iriai.system.lock_file import adopt_holder, lock_holder

END_WAIT_S = 60.0
"""For a launcher to end: tasks get their grace first, at most 5 s, then it cleans up."""


def end_launcher(directory: str) -> int | None:
    """End the launcher of a state directory and its tasks; return its process id.

    Returns None if none runs. Raises a `Problem` if this is not permitted, or it does not end.
    """
    paths = absolute_paths(directory)
    try:
        supervisor = lock_holder(paths.lock("supervisor"))
        launcher = adopt_holder(paths.lock("launcher"))
        if launcher is None:
            return None
        if supervisor is not None:
            raise Unreachable(
                "being-restarted",
                f"the daemon does not answer, but its supervisor runs (process {supervisor})",
                "try again in a moment, or end that process first",
            )
        launcher.send(signal.SIGTERM)
    except PermissionError:
        raise NotAllowed(
            "not-your-launcher",
            f"the launcher of {directory} belongs to another user",
            "run the command as the owner of that directory",
        ) from None
    if not launcher.ended(END_WAIT_S):
        raise Unreachable(
            "still-ending",
            f"the launcher, process {launcher.pid}, has not ended for {END_WAIT_S:.0f} s",
            f"see {paths.log_of('launcher')}",
        )
    launcher.exit_code()
    return launcher.pid
