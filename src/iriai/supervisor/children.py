"""Launcher and daemon as child processes: how to start each, and how each ended."""

from __future__ import annotations

import os
from pathlib import Path

from iriai.model.paths import StatePaths
from iriai.supervisor.restart_backoff import RestartBackoff
from iriai.system.exit_report import ExitReport, has_started, open_ending, read_ending
from iriai.system.lock_file import adopt_holder
from iriai.system.process_handle import ProcessHandle, spawn

_LAST_WORDS_BYTES = 4096
_LINE_LENGTH_MAX = 300


class Child:
    """Launcher or daemon: how to start it, and what has become of it."""

    def __init__(self, name: str, command: list[str], paths: StatePaths) -> None:
        self.name = name
        self.watched: ProcessHandle | None = None
        self.due_s: float | None = 0.0
        """When to start it (steady clock); None: not before something else happens."""
        self.began_s = 0.0
        """When this life of it began, as far as this supervisor saw it."""
        self.has_worked = False
        """Whether one was ever found running, or got as far as to work."""
        self.back_off = RestartBackoff()
        self.log = paths.log_of(name)
        """The file of what it says."""
        self._command = command
        self._lock = paths.lock(name)

    def find_or_start(self, now_s: float) -> str:
        """Watch the one that runs, else start it; returns what was done, for the log."""
        self.due_s = None
        self.began_s = now_s
        found = adopt_holder(self._lock)
        if found is None:
            self.clear_marks()
        self.watched = found or spawn(self._command, self.log)
        self.has_worked = self.has_worked or found is not None
        return f"{self.name} {'found' if found else 'started'}, process {self.watched.pid}"

    def reap(self, now_s: float) -> tuple[float, int | None]:
        """Of one that has ended: (seconds it lived under us, exit code)."""
        assert self.watched is not None
        code = self.watched.exit_code()
        self.watched = None
        self.has_worked = self.has_worked or self.left_a_mark()
        return now_s - self.began_s, code

    def last_line(self) -> str:
        """The last line of its log that says anything."""
        return _last_line(self.log)

    def clear_marks(self) -> None:
        """Remove what an earlier life left to show that it worked."""
        raise NotImplementedError

    def left_a_mark(self) -> bool:
        """Whether this life got as far as to work."""
        raise NotImplementedError


class DaemonChild(Child):
    """The daemon, which says so when it serves, and why when it ends."""

    def __init__(self, command: list[str], paths: StatePaths) -> None:
        super().__init__("daemon", command, paths)
        self._end = paths.end("daemon")

    def clear_marks(self) -> None:
        """An ending of before would be taken for this one's."""
        os.close(open_ending(self._end))

    def left_a_mark(self) -> bool:
        """As it said."""
        return has_started(self._end)

    def exit_report(self) -> ExitReport | None:
        """Why it ended, or is about to; None where it said nothing."""
        return read_ending(self._end)


class LauncherChild(Child):
    """The launcher, which listens when it is ready."""

    def __init__(self, command: list[str], paths: StatePaths) -> None:
        super().__init__("launcher", command, paths)
        self._socket = Path(paths.launcher_socket)

    def clear_marks(self) -> None:
        """Nobody listens there any more."""
        self._socket.unlink(missing_ok=True)

    def left_a_mark(self) -> bool:
        """Its socket outlives all but an end on purpose."""
        return self._socket.exists()


def _last_line(log: str) -> str:
    try:
        with Path(log).open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _LAST_WORDS_BYTES))
            lines = file.read().decode(errors="replace").split("\n")
    except OSError:
        return "none"
    words = [line.strip() for line in lines if line.strip()]
    return words[-1][:_LINE_LENGTH_MAX] if words else "none"
