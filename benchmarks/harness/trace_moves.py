"""Which files of iriai run, and how often a call goes from one of them to another.

Imported when an interpreter starts (`commit.py` arranges that), where `TRACE_MOVES` names a
directory. While there is a file `recording` in it, each process counts, and while there is a file
`recording.PID`, that one; each leaves what it has counted there when that file is gone.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
import threading
from types import FrameType

VARIABLE = "TRACE_MOVES"
"""Not of iriai: what begins with that is refused for tasks, and the command would say so."""
RECORDING = "recording"
SOURCE = "/src/iriai/"


class Moves:
    """Of one process."""

    def __init__(self, directory: str) -> None:
        self._flags = (f"{directory}/{RECORDING}", f"{directory}/{RECORDING}.{os.getpid()}")
        self._directory = directory
        self._is_recording = False
        self._files: set[str] = set()
        self._calls = self._moves = 0

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        """Count one call."""
        if argument is os._exit:  # a command ends so, without atexit
            self.leave()
        name = frame.f_code.co_filename
        if event != "call" or SOURCE not in name:
            return
        if not os.path.exists(self._directory):  # a thread of the launcher, in a /tmp of its own
            return
        if self._is_recording != any(map(os.path.exists, self._flags)):
            self.leave()
            self._is_recording = not self._is_recording
        if not self._is_recording:
            return
        self._files.add(name.rpartition(SOURCE)[2])
        self._calls += 1
        caller = frame.f_back
        while caller is not None and SOURCE not in caller.f_code.co_filename:
            caller = caller.f_back
        self._moves += caller is not None and caller.f_code.co_filename != name

    def leave(self) -> None:
        """Write down what was counted, if anything was."""
        if self._is_recording:
            found = {"files": sorted(self._files), "calls": self._calls, "moves": self._moves}
            with open(f"{self._directory}/{os.getpid()}.json", "w", encoding="utf-8") as file:
                json.dump(found, file)


def _begin(directory: str) -> None:
    moves = Moves(directory)
    atexit.register(moves.leave)
    threading.setprofile(moves)
    sys.setprofile(moves)


if VARIABLE in os.environ:
    _begin(os.environ[VARIABLE])
