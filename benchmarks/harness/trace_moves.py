"""Which files of iriai run, and how often a call goes from one of them to another.

Imported when an interpreter starts (`commit.py` arranges that), where `TRACE_MOVES` names a
directory. While there is a link `recording` in it, each process counts, for what the link names;
while there is a link `recording.PID`, that process. Each leaves what it has counted in
`PID.NAME.json` at its first call after the link has gone or changed, or at its end.

The modules of packages (`__init__.py`) are not counted: theirs are docstrings and names of others.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
import threading
from types import FrameType
from typing import TypedDict

VARIABLE = "TRACE_MOVES"
"""Not of iriai: what begins with that is refused for tasks, and the command would say so."""
RECORDING = "recording"
SOURCE = "/src/iriai/"


class Counts(TypedDict):
    """What a process leaves."""

    files: list[str]
    calls: int
    moves: int


class Moves:
    """Of one process."""

    def __init__(self, directory: str) -> None:
        self._flags = (f"{directory}/{RECORDING}", f"{directory}/{RECORDING}.{os.getpid()}")
        self._directory = directory
        self._recorded = ""
        """What is counted at present, as the link names it; empty: nothing."""
        self._begin()

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        """Count one call."""
        if argument is os._exit:  # a command ends so, without atexit
            self.leave()
        name = frame.f_code.co_filename
        if event != "call" or SOURCE not in name or name.endswith("/__init__.py"):
            return
        if not os.path.exists(self._directory):  # a thread of the launcher, in a /tmp of its own
            return
        wanted = next(filter(None, map(_named, self._flags)), "")
        if wanted != self._recorded:
            self.leave()
            self._recorded = wanted
            self._begin()
        if not wanted:
            return
        self._files.add(name.rpartition(SOURCE)[2])
        self._calls += 1
        caller = frame.f_back
        while caller is not None and SOURCE not in caller.f_code.co_filename:
            caller = caller.f_back
        self._moves += caller is not None and caller.f_code.co_filename != name

    def leave(self) -> None:
        """Write down what was counted, if anything was."""
        if self._recorded:
            found = {"files": sorted(self._files), "calls": self._calls, "moves": self._moves}
            path = f"{self._directory}/{os.getpid()}.{self._recorded}.json"
            with open(path, "w", encoding="utf-8") as file:
                json.dump(found, file)

    def _begin(self) -> None:
        self._files: set[str] = set()
        self._calls = self._moves = 0


def _named(link: str) -> str:
    """Return what a link names; empty if there is none."""
    try:
        return os.readlink(link)
    except OSError:
        return ""


def _begin(directory: str) -> None:
    moves = Moves(directory)
    atexit.register(moves.leave)
    threading.setprofile(moves)
    sys.setprofile(moves)


if VARIABLE in os.environ:
    _begin(os.environ[VARIABLE])
