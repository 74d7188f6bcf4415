"""Fetches output of our tasks on other machines while they run.

A copy is asked for piece by piece, from where it ends. So a piece that is lost is asked for again,
one that comes twice is seen to be old, and a daemon that comes back goes on.
"""

from __future__ import annotations

import asyncio
import os
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from iriai.daemon.tasks.spool_reader import read_piece
from iriai.launcher.directories.spool import SPOOL_BYTES_MAX, spool_name
from iriai.model.ids import AttemptId
from iriai.protocol.messages.effects import Part, Send
from iriai.protocol.messages.output import KINDS, PIECE_BYTES, AskOutput, Output
from iriai.wire.requests import OutputPiece

ANSWER_S = 15.0
"""Without an answer it is asked again: half as long again as a node takes to say that there is
nothing new."""
PAUSE_S = 0.1
"""Before it is asked for more, where all that there was has come: not noticed by people."""
ASKS_MAX = 2
"""Of an attempt that is over: its machine is gone. While it runs, its lease decides."""
COPIES_MAX = 10_000
"""Attempts of which it is remembered where they ran; of older ones a client asks anew."""
READ_BYTES = 1 << 18
"""Of one answer to a client."""


class CopyKey(NamedTuple):
    """One stream of one attempt."""

    attempt: AttemptId
    kind: str


class _Copy:
    __slots__ = ("asks", "is_complete", "machine", "problem", "size_bytes", "timer")

    def __init__(self, machine: str, size_bytes: int) -> None:
        self.machine = machine
        self.size_bytes = size_bytes
        self.is_complete = False
        self.asks = 0
        """Since something was heard."""
        self.problem = ""
        """Why it cannot be kept here."""
        self.timer: asyncio.TimerHandle | None = None


class OutputFetcher:
    """Fetches output of our tasks on other machines; `spool` is the daemon's own directory."""

    def __init__(
        self,
        spool: str,
        say: Callable[[list[Send]], None],
        is_running: Callable[[AttemptId], bool],
        is_far: Callable[[str], bool],
    ) -> None:
        """`is_running` says whether the home still waits for the end of an attempt.

        `is_far` says whether the files of a machine are not on this host.
        """
        self.is_far = is_far
        self._spool = spool
        self._say = say
        self._is_running = is_running
        self._loop = asyncio.get_running_loop()
        self._copies: OrderedDict[CopyKey, _Copy] = OrderedDict()

    def begin(self, attempt: AttemptId, machine: str) -> None:
        """Bring what the attempt prints, unless that is under way or done.

        It has begun there: a machine that does not know it says that nothing will come.
        """
        for kind in KINDS:
            key = CopyKey(attempt, kind)
            copy = self._copies.get(key)
            if copy is None:
                copy = self._copies[key] = _Copy(machine, self._size_bytes(key))
                while len(self._copies) > COPIES_MAX:
                    self._stop(self._copies.popitem(last=False)[1])
            if copy.timer is None and not copy.is_complete:
                copy.asks = 0
                self._ask(key, copy)

    def receive(self, sender: str, output: Output) -> None:
        """A machine answers."""
        key = CopyKey(output.attempt, output.kind)
        copy = self._copies.get(key)
        if copy is None or copy.machine != sender or copy.is_complete:
            return
        if output.offset != copy.size_bytes:
            return  # said twice
        self._stop(copy)
        copy.asks = 0
        if copy.size_bytes + len(output.content) > SPOOL_BYTES_MAX:
            copy.problem = f"beyond {SPOOL_BYTES_MAX >> 20} MiB it is not kept here"
            return
        try:
            written = self._append(key, output.content)
        except OSError as error:
            copy.problem = f"the rest of it cannot be kept here: {error.strerror}"
            return
        copy.size_bytes += written
        copy.is_complete = output.is_complete and written == len(output.content)
        if not copy.is_complete:
            pause_s = 0.0 if len(output.content) >= PIECE_BYTES else PAUSE_S
            copy.timer = self._loop.call_later(pause_s, partial(self._ask, key, copy))

    def piece(self, key: CopyKey, offset: int) -> OutputPiece:
        """What has come of it from `offset` on."""
        copy = self._copies.get(key)
        try:
            content = read_piece(self._path(key), offset, READ_BYTES)
        except FileNotFoundError:
            content = b""
        except OSError as error:
            problem = f"it cannot be read here: {error.strerror}"
            return OutputPiece(b"", is_complete=True, problem=problem)
        is_all = copy is None or offset + len(content) >= copy.size_bytes
        if copy is None:  # it has not begun, or is asked for once it is over
            return OutputPiece(content, is_complete=not self._is_running(key.attempt))
        if is_all and copy.timer is None and not copy.is_complete:
            problem = f"the rest of it is on {copy.machine}, which does not answer"
            return OutputPiece(content, is_complete=True, problem=copy.problem or problem)
        return OutputPiece(content, is_complete=is_all and copy.is_complete)

    def close(self) -> None:
        """Ask nobody any more."""
        for copy in self._copies.values():
            self._stop(copy)

    def _ask(self, key: CopyKey, copy: _Copy) -> None:
        copy.timer = None
        if copy.asks >= ASKS_MAX and not self._is_running(key.attempt):
            return
        copy.asks += 1
        ask = AskOutput(key.attempt, key.kind, copy.size_bytes)
        self._say([Send(copy.machine, Part.OUTPUT, ask)])
        copy.timer = self._loop.call_later(ANSWER_S, partial(self._ask, key, copy))

    @staticmethod
    def _stop(copy: _Copy) -> None:
        if copy.timer is not None:
            copy.timer.cancel()
            copy.timer = None

    # --- the file --------------------------------------------------------------------------------

    def _path(self, key: CopyKey) -> str:
        return f"{self._spool}/{spool_name(key.attempt, key.kind)}"

    def _size_bytes(self, key: CopyKey) -> int:
        try:
            return Path(self._path(key)).stat().st_size
        except OSError:  # what is there and cannot be read is told when it is to be read
            return 0

    def _append(self, key: CopyKey, content: bytes) -> int:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(self._path(key), flags, 0o600)
        try:
            return os.write(descriptor, content)
        finally:
            os.close(descriptor)
