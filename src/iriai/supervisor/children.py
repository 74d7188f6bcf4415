"""Launcher and daemon as child processes: how to start each, and how each ended."""

from __future__ import annotations

import os
from contextlib import suppress

from iriai.model.paths import StatePaths
from iriai.system.exit_report import ExitReport, has_started, open_ending, read_ending
from iriai.system.lock_file import adopt_holder
from iriai.system.process_handle import ProcessHandle, spawn
from iriai.system.restart_backoff import RestartBackoff

_LAST_WORDS_BYTES = 4096
_LINE_LENGTH_MAX = 300


def last_line_in(log: str) -> str:
    """Return the last line of a log that is not blank; empty if there is none, or no access."""
    try:
        with open(log, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _LAST_WORDS_BYTES))
            lines = file.read(_LAST_WORDS_BYTES).decode(errors="replace").split("\n")
    except OSError:
        return ""
    words = [line.strip() for line in lines if line.strip()]
    return words[-1][:_LINE_LENGTH_MAX] if words else ""


class Child:
    """Launcher or daemon: how to start it, and its current process."""

    def __init__(self, name: str, command: list[str], paths: StatePaths) -> None:
        self.name = name
        self.process: ProcessHandle | None = None
        self.due_s: float | None = 0.0
        """When to start it (steady clock); None: not before something else happens."""
        self.began_s = 0.0
        """When this process began, as far as this supervisor knows."""
        self.has_worked = False
        """Whether one was found running, or got as far as to work."""
        self.back_off = RestartBackoff()
        self.log = paths.log_of(name)
        """Its log file."""
        self._command = command
        self._lock = paths.lock(name)

    def find_or_start(self, now_s: float) -> str:
        """Adopt the one that runs, else start it; return a line for the log."""
        self.due_s = None
        self.began_s = now_s
        found = adopt_holder(self._lock)
        if found is None:
            self.clear_marks()
        self.process = found or spawn(self.command(), self.log)
        self.has_worked = self.has_worked or found is not None
        return f"{self.name} {'found' if found else 'started'}, process {self.process.pid}"

    def reap(self, process: ProcessHandle, now_s: float) -> tuple[float, int | None]:
        """Return how long its ended process lived under this supervisor, and its exit code."""
        code = process.exit_code()
        self.process = None
        self.has_worked = self.has_worked or self.left_a_mark()
        return now_s - self.began_s, code

    def last_line(self) -> str:
        """Return the last line of its log that is not blank, or "none"."""
        return last_line_in(self.log) or "none"

    def command(self) -> list[str]:
        """Return the command that starts it now."""
        return self._command

    def clear_marks(self) -> None:
        """Remove the marks by which an earlier process showed that it worked."""
        raise NotImplementedError

    def left_a_mark(self) -> bool:
        """Return whether this process got as far as to work."""
        raise NotImplementedError


class DaemonChild(Child):
    """The daemon, which reports when it serves, and why it ends."""

    def __init__(self, command: list[str], paths: StatePaths, rc: str) -> None:
        """`rc` is the rc file of this start; a daemon that is started again does not run it."""
        super().__init__("daemon", command, paths)
        self._end = paths.end("daemon")
        self._rc = rc

    def command(self) -> list[str]:
        """Return the command that starts it now: until one has served, with the rc file."""
        return self._command if self.has_worked else [*self._command, "--rc", self._rc]

    def clear_marks(self) -> None:
        """Remove the report of an earlier process."""
        os.close(open_ending(self._end))

    def left_a_mark(self) -> bool:
        """Return whether the daemon reported that it serves."""
        return has_started(self._end)

    def exit_report(self) -> ExitReport | None:
        """Return why it ended, or is about to; None if it left no report."""
        return read_ending(self._end)


class LauncherChild(Child):
    """The launcher, which listens when it is ready."""

    def __init__(self, command: list[str], paths: StatePaths) -> None:
        super().__init__("launcher", command, paths)
        self._socket = paths.launcher_socket

    def clear_marks(self) -> None:
        """Remove the socket of an earlier process."""
        with suppress(FileNotFoundError):
            os.unlink(self._socket)

    def left_a_mark(self) -> bool:
        """Return whether its socket exists, which only an end on purpose removes."""
        return os.path.exists(self._socket)
