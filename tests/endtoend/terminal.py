"""A person at a terminal, who types and reads."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from tests.endtoend.installation import PYTHON

WAIT_S = 60.0
"""Only a failure takes so long."""
CTRL_C, CTRL_Z = "\x03", "\x1a"
_SAYS = (
    "from signal import *; signal(SIGINT, SIG_DFL); pthread_sigmask(SIG_BLOCK, [SIGCONT]); "
    'print("g" "o", flush=True); sigwait([SIGCONT]); print("o" "n", flush=True); pause()'
)
SAYS_WHEN_IT_RUNS = f"{PYTHON} -S -c '{_SAYS}'\n"
"""A command that prints "go" once it has the terminal, and "on" when it has it again.

One process: a shell that vforks does not stop if its child was stopped before its exec.
"""


class Terminal:
    """A command that runs on a terminal of its own, as in a window."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], cwd: Path) -> None:
        self.pid, self._master = pty.fork()
        if self.pid == 0:
            try:
                _resize(0, 24, 80)
                os.chdir(cwd)
                os.execvpe(command[0], command, environment)
            finally:
                os._exit(127)
        self.text = ""
        """All that was shown so far."""
        self._seen = 0
        self._code: int | None = None

    def resize(self, rows: int, columns: int) -> None:
        _resize(self._master, rows, columns)

    def mode(self) -> list[object]:
        """How the terminal is set."""
        return termios.tcgetattr(self._master)

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def expect(self, text: str) -> str:
        """Wait until `text` is shown, after what was expected before; returns what led to it."""
        deadline_s = time.monotonic() + WAIT_S
        while (place := self.text.find(text, self._seen)) < 0:
            assert self._read(deadline_s), f"{text!r} was not shown: {self.text!r}"
        before, self._seen = self.text[self._seen : place], place + len(text)
        return before

    def wait(self) -> int:
        """The exit code, once the command has ended and all is read."""
        while self._read(time.monotonic() + WAIT_S):
            pass
        if self._code is None:
            _, status = os.waitpid(self.pid, 0)
            self._code = os.waitstatus_to_exitcode(status)
        return self._code

    def kill(self) -> None:
        """End the command as a crash does; the window stays open."""
        os.kill(self.pid, signal.SIGKILL)
        self.wait()

    def close(self) -> None:
        if self._code is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self._master)

    def _read(self, deadline_s: float) -> bool:
        """Take in what is shown next; False at the end."""
        poll = select.poll()
        poll.register(self._master, select.POLLIN)
        if not poll.poll(max(0.0, deadline_s - time.monotonic()) * 1000):
            raise AssertionError(f"nothing more was shown: {self.text!r}")
        try:
            data = os.read(self._master, 1 << 16)
        except OSError:  # nobody has the other side open any more
            return False
        self.text += data.decode(errors="replace")
        return bool(data)


def _resize(terminal: int, rows: int, columns: int) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
