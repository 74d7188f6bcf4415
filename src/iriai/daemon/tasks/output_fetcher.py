"""Fetches output of this home's tasks on other machines while they run.

A copy is requested piece by piece, from its end. So a lost piece is requested again, a repeated one
is recognized as old, and a daemon that restarts continues.
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
"""Time without an answer after which it asks again: half as long again as a node takes to answer
that there is nothing new."""
PAUSE_S = 0.1
"""Pause before the next request, if all output so far has arrived: people do not notice it."""
ASKS_MAX = 2
"""Number of requests for an attempt that is over: its machine may be offline. While it runs, its
lease decides."""
COPIES_MAX = 10_000
"""Attempts whose machines are remembered; for older ones a client asks again."""
READ_BYTES = 1 << 18
"""Bytes of one answer to a client."""


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
        """Time of the last message."""
        self.problem = ""
        """Why it cannot be stored here."""
        self.timer: asyncio.TimerHandle | None = None


class OutputFetcher:
    """Fetches output of this home's tasks on other machines; `spool` is the daemon's directory."""

    def __init__(
        self,
        spool: str,
        say: Callable[[list[Send]], None],
        is_running: Callable[[AttemptId], bool],
        is_far: Callable[[str], bool],
    ) -> None:
        """`is_running` returns whether the home still waits for the end of an attempt.

        `is_far` returns whether the files of a machine are not on this host.
        """
        self.is_far = is_far
        self._spool = spool
        self._say = say
        self._is_running = is_running
        self._loop = asyncio.get_running_loop()
        self._copies: OrderedDict[CopyKey, _Copy] = OrderedDict()

    def begin(self, attempt: AttemptId, machine: str) -> None:
        """Fetch the attempt's output, unless that is in progress or done.

        The attempt has begun there: a machine that does not know it answers that nothing will come.
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
        """Handle an answer of a machine."""
        key = CopyKey(output.attempt, output.kind)
        copy = self._copies.get(key)
        if copy is None or copy.machine != sender or copy.is_complete:
            return
        if output.offset != copy.size_bytes:
            return  # repeated
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
        """Return the fetched output from `offset` on."""
        copy = self._copies.get(key)
        try:
            content = read_piece(self._path(key), offset, READ_BYTES)
        except FileNotFoundError:
            content = b""
        except OSError as error:
            problem = f"it cannot be read here: {error.strerror}"
            return OutputPiece(b"", is_complete=True, problem=problem)
        is_all = copy is None or offset + len(content) >= copy.size_bytes
        if copy is None:  # it has not begun, or is requested after its end
            return OutputPiece(content, is_complete=not self._is_running(key.attempt))
        if is_all and copy.timer is None and not copy.is_complete:
            problem = f"the rest of it is on {copy.machine}, which does not answer"
            return OutputPiece(content, is_complete=True, problem=copy.problem or problem)
        return OutputPiece(content, is_complete=is_all and copy.is_complete)

    def close(self) -> None:
        """Stop all requests."""
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
        except OSError:  # an unreadable file is reported when it is read
            return 0

    def _append(self, key: CopyKey, content: bytes) -> int:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(self._path(key), flags, 0o600)
        try:
            return os.write(descriptor, content)
        finally:
            os.close(descriptor)
