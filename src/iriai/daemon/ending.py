"""Why a daemon or a supervisor ended, left in a file for whoever started it.

The file is opened before privileges are dropped and written in one go. Empty: the process runs, or
ended without a word (it crashed or was killed).
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import NamedTuple

from iriai.model.problem import FAMILIES, ExitCode, Problem

_LENGTH_MAX = 65_536
"""A problem is a line or two; more is not ours."""


class Ending(NamedTuple):
    """An end on purpose."""

    exit_code: int
    """0: someone wanted it to end."""
    code: str = ""
    message: str = ""
    hint: str = ""
    kill: bool = False
    """Whether the launcher and every task were to end as well."""

    def problem(self) -> Problem:
        """What kept the process from running, as it was raised there."""
        family = FAMILIES.get(ExitCode(self.exit_code), Problem)
        return family(self.code, self.message, self.hint)


def ending_of(problem: Problem) -> Ending:
    """The ending that `problem` is."""
    return Ending(problem.exit_code, problem.code, problem.message, problem.hint)


def open_ending(path: str) -> int:
    """An empty file for the ending of this process; returns its descriptor."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)


def announce(descriptor: int, ending: Ending) -> None:
    """Say why this process is about to end; the last word counts."""
    text = json.dumps(ending._asdict()).encode() + b"\n"
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, text, 0)


def read_ending(path: str) -> Ending | None:
    """What the process said; None where it said nothing, or the file was torn."""
    try:
        text = Path(path).read_bytes()[:_LENGTH_MAX]
        said = json.loads(text)
        return Ending(
            int(said["exit_code"]),
            str(said["code"]),
            str(said["message"]),
            str(said["hint"]),
            bool(said["kill"]),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
