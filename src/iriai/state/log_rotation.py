"""Logs of bounded size: one that has grown is moved to `NAME.log.1`, and a fresh one is made.

The supervisor does it for all parts, since the directory is its own and there is one supervisor at
a time. Every step is a rename: whoever dies between two leaves a gap in the numbers, which the next
rotation closes. The parts notice by themselves (launcher.log_file).
"""

from __future__ import annotations

import json
import os
from contextlib import suppress

from iriai.model.paths import StatePaths

LOOK_S = 5.0
"""Between two checks of three files: negligible beside other work."""
PARTS = ("daemon", "launcher", "supervisor")
LOG_BYTES_MAX = 16 << 20
LOG_FILES = 4
"""As in launcher.contract.machine_config, which this process does not load for two numbers."""
MODE = 0o640


class LogRotation:
    """The logs of one state directory."""

    def __init__(self, paths: StatePaths, daemon_uid: int) -> None:
        """`daemon_uid` owns the daemon's log: it opens the fresh one by itself."""
        self._paths = paths
        self._daemon_uid = daemon_uid

    def prepare(self) -> None:
        """Create the logs that are missing, each with its owner."""
        for part in PARTS:
            with suppress(OSError):
                self._make(part)

    def rotate_due(self) -> None:
        """Rotate the logs that exceed the limit, and create those that are missing."""
        bytes_max, files = self._limits()
        for part in PARTS:
            path = self._paths.log_of(part)
            with suppress(OSError):  # a full disk has no room for a rename either
                try:
                    if os.stat(path).st_size <= bytes_max:
                        continue
                except FileNotFoundError:
                    self._make(part)
                    continue
                shift(path, files)
                self._make(part)

    def _limits(self) -> tuple[int, int]:
        """Return the configured limits; the defaults if they cannot be read."""
        try:
            with open(f"{self._paths.directory}/machine.json", "rb") as file:
                settings = json.load(file)
            return int(settings["log_bytes_max"]), int(settings["log_files"])
        except (OSError, ValueError, KeyError, TypeError):
            return LOG_BYTES_MAX, LOG_FILES

    def _make(self, part: str) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(self._paths.log_of(part), flags, MODE)
        try:
            if part == "daemon" and os.geteuid() == 0:
                os.fchown(fd, self._daemon_uid, -1)
        finally:
            os.close(fd)


def shift(path: str, files: int) -> None:
    """Rename `path` to `path.1`, that to `path.2`, and so on; keep `files` of them.

    Raises OSError; then at most files beyond `files` are lost.
    """
    beyond = files + 1
    while os.path.exists(_numbered(path, beyond)):  # more were kept with an earlier configuration
        beyond += 1
    for number in range(max(files, 1), beyond):
        with suppress(FileNotFoundError):
            os.unlink(_numbered(path, number))
    for number in range(files - 1, 0, -1):
        with suppress(FileNotFoundError):
            os.rename(_numbered(path, number), _numbered(path, number + 1))
    if files:
        os.rename(path, _numbered(path, 1))
    else:
        os.unlink(path)


def _numbered(path: str, number: int) -> str:
    return f"{path}.{number}"
