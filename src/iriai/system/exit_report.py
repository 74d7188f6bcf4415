"""The daemon's exit report: whether it served, and why it ended, in a file for the supervisor.

The file is opened before privileges are dropped and overwritten in place, so that a full disk has
room for the reason that the disk is full. Without an ending the process runs, or ended without a
word (it crashed or was killed). A supervisor leaves its own ending to `iriai up` in the same way.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import NamedTuple

from iriai.model.problem import Problem, problem_from

_MODE = 0o600
_LENGTH = 4096
"""Of the report, blanks included: a problem is a line or two. The started mark follows it."""
_STARTED = b"started\n"


class ExitReport(NamedTuple):
    """Why a process ended on purpose."""

    exit_code: int
    """0: the end was requested."""
    code: str = ""
    message: str = ""
    hint: str = ""
    kill: bool = False
    """Whether the launcher and every task were to end as well."""
    again: bool = False
    """Whether it is to be started again at once, since its configuration has changed."""

    def problem(self) -> Problem:
        """Return the problem that ended the process, as it was raised there."""
        return problem_from(self.exit_code, self.code, self.message, self.hint)


def ending_of(problem: Problem) -> ExitReport:
    """Return the report of an end because of `problem`."""
    return ExitReport(*problem.fields)


def open_ending(path: str) -> int:
    """Make a blank file for the report; return its descriptor. Raises OSError."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _MODE)
    os.fchmod(descriptor, _MODE)
    _overwrite(descriptor, b"\n", 0, _LENGTH)
    _overwrite(descriptor, b"\n", _LENGTH, len(_STARTED))
    return descriptor


def announce_started(descriptor: int) -> None:
    """Record that this process has begun its work."""
    _overwrite(descriptor, _STARTED, _LENGTH, len(_STARTED))


def announce(descriptor: int, ending: ExitReport) -> None:
    """Record why this process is about to end; a later report replaces an earlier one."""
    text = json.dumps(ending._asdict()).encode()
    if len(text) >= _LENGTH:
        text = json.dumps(ending._replace(message=ending.message[:200], hint="")._asdict()).encode()
    _overwrite(descriptor, text + b"\n", 0, _LENGTH)


def _overwrite(descriptor: int, text: bytes, offset: int, length: int) -> None:
    # On a full disk the report is lost, and nothing else.
    with suppress(OSError):
        os.pwrite(descriptor, text.rjust(length), offset)


def has_started(path: str) -> bool:
    """Return whether the process recorded that it began its work."""
    try:
        return _content(path)[_LENGTH:] == _STARTED
    except OSError:
        return False


def _content(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def read_ending(path: str) -> ExitReport | None:
    """Return the report of a process; None if it left none, or the file was torn."""
    try:
        content = _content(path)
    except OSError:
        return None
    return _ending(content)


def ending_in(descriptor: int) -> ExitReport | None:
    """Return the report in the open file of this process, as `read_ending` does."""
    try:
        content = os.pread(descriptor, _LENGTH, 0)
    except OSError:
        return None
    return _ending(content)


def _ending(content: bytes) -> ExitReport | None:
    try:
        fields = json.loads(content[:_LENGTH])
        return ExitReport(
            int(fields["exit_code"]),
            str(fields["code"]),
            str(fields["message"]),
            str(fields["hint"]),
            bool(fields["kill"]),
            bool(fields.get("again", False)),
        )
    except (ValueError, KeyError, TypeError):
        return None
