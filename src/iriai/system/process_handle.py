"""A handle of a process that the supervisor started or found running."""

from __future__ import annotations

import os
import select
import signal
from typing import NamedTuple

MALLOC = {
    "MALLOC_MMAP_THRESHOLD_": str(128 << 10),
    "MALLOC_TRIM_THRESHOLD_": str(2 << 20),
}
"""Settings of the C library: a larger block has pages of its own, which are returned when it is
freed. By default the bound grows to 32 MiB, and the memory of large requests stays (mallopt(3)). Of
the rest so much is kept, since it is used again at once."""


class ProcessHandle(NamedTuple):
    """A process by its descriptor, which never refers to another process, as a number can."""

    pid: int
    descriptor: int
    child: bool
    """Whether this process started it; only then can its exit code be read."""

    def ended(self, within_s: float = 0.0) -> bool:
        """Return whether the process has ended, waiting up to `within_s` for it."""
        poll = select.poll()
        poll.register(self.descriptor, select.POLLIN)
        return bool(poll.poll(within_s * 1000))

    def exit_code(self) -> int | None:
        """Return the code of an ended process, or minus its signal; None if it is no child.

        Reaps the process and closes the descriptor.
        """
        code = None
        if self.child:
            _, status = os.waitpid(self.pid, 0)
            code = os.waitstatus_to_exitcode(status)
        os.close(self.descriptor)
        return code

    def send(self, number: signal.Signals) -> None:
        """Signal the process, if it still exists."""
        try:
            signal.pidfd_send_signal(self.descriptor, number)
        except ProcessLookupError:
            return


def spawn(command: list[str], log: str) -> ProcessHandle:
    """Start `command` in a session of its own, with its output appended to `log`."""
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o640),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]
    pid = os.posix_spawn(
        command[0],
        command,
        {**os.environ, **MALLOC},
        file_actions=actions,
        setsid=True,
        setsigmask=[],
        setsigdef=[signal.SIGPIPE, signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1],
    )
    return ProcessHandle(pid, os.pidfd_open(pid), child=True)


def adopt(pid: int) -> ProcessHandle | None:
    """Return a handle of the process `pid`; None if it has ended."""
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        return None
    process = ProcessHandle(pid, descriptor, child=False)
    # A process that ended and was not reaped yet still has its number.
    if process.ended():
        os.close(descriptor)
        return None
    return process
