"""Sends standard input, or what is typed at a terminal, to a job of `run`."""

from __future__ import annotations

import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec.structs import replace

from iriai.client.client import Client
from iriai.client.rpc_channel import ConnectionLost
from iriai.model.problem import Problem, Unreachable
from iriai.wire.requests import NOT_STARTED, TOO_MUCH_INPUT, InputWritten, WriteInput

if TYPE_CHECKING:
    from iriai.wire.steps import WriteStep

READ_BYTES = 256 << 10
SENT_BYTES_MAX = 1 << 20
"""Sent and not acknowledged: more is not read, so that the sender waits as in a pipe."""
RETRY_S = 0.2
"""Pause before input is sent again that could not be."""
GIVE_UP_S = 60.0
"""How long an offline daemon is tolerated."""
LATER = (NOT_STARTED, TOO_MUCH_INPUT)
"""Refusals after which the same input is sent again."""
END_OF_FILE = b"\x04"
"""The key that a terminal takes for the end of input."""


class InputSender(threading.Thread):
    """Sends what can be read from a descriptor, over a connection of its own, until the task ends.

    Each piece is kept until the task has it, and sent again after a connection was lost.
    """

    def __init__(
        self,
        connect: Callable[[], Client],
        first: WriteInput | WriteStep,
        source: int,
        *,
        is_terminal: bool,
    ) -> None:
        """`first` names the job, or step, and has no content.

        `is_terminal`: its input is a terminal, which has a key for the end of input.
        """
        super().__init__(name="input", daemon=True)
        self._connect = connect
        self._first = first
        self._source = source
        self._is_terminal = is_terminal
        self._wake_out, self._wake_in = os.pipe()
        os.set_blocking(self._wake_in, False)
        self._window: tuple[int, int] | None = None
        """Rows and columns of the terminal, as they were sent; None: not over this connection."""
        self._pieces: deque[bytes] = deque()
        """Read, and not acknowledged."""
        self._offset = 0
        """Of the first of them."""
        self._is_at_end = False
        self._is_over = False

    def look(self) -> None:
        """Send the size of the terminal if it changed; may be called from a signal handler."""
        with suppress(BlockingIOError):  # it is awake
            os.write(self._wake_in, b"w")

    def run(self) -> None:
        """Send until the end of input or of the job."""
        lost_s = time.monotonic()
        while not self._is_over and time.monotonic() < lost_s + GIVE_UP_S:
            try:
                with self._connect() as client:
                    try:
                        self._send_all(client)
                    finally:
                        lost_s = time.monotonic()
            except Unreachable:  # the daemon, or the machine of the task, is offline
                time.sleep(RETRY_S)
            except Problem as problem:
                if problem.code not in LATER:
                    return  # the job is over, or the main thread is refused too and reports it
                time.sleep(RETRY_S / 10)
            else:
                return

    def _send_all(self, client: Client) -> None:
        self._window = None
        sending = _Sending(client, self._first, self._offset)
        for piece in self._pieces:
            sending.send(piece, is_end=False)
        if self._is_at_end and not self._is_terminal:
            sending.send(b"", is_end=True)
        while not self._is_over:
            if (window := self._changed_window()) is not None:
                sending.send(b"", is_end=False, window=window)
            self._wait(client, sending)
            while (written := sending.next_answer()) is not None:
                self._acknowledged(written, sending)

    def _wait(self, client: Client, sending: _Sending) -> None:
        """Wait until there is something to read, or an answer; read."""
        poll = select.poll()
        poll.register(self._wake_out, select.POLLIN)
        poll.register(client.channel.fileno(), select.POLLIN)
        has_room = sending.end - self._offset < SENT_BYTES_MAX
        if has_room and not self._is_at_end:
            poll.register(self._source, select.POLLIN)
        for descriptor, _ in poll.poll():
            if descriptor == self._wake_out:
                os.read(self._wake_out, 4096)
            elif descriptor == self._source:
                self._read(sending)
            elif not sending.is_awaited:
                raise ConnectionLost("daemon-gone", "the daemon went offline")

    def _read(self, sending: _Sending) -> None:
        try:
            data = os.read(self._source, READ_BYTES)
        except OSError:  # a terminal that is gone
            data = b""
        if not data:
            self._is_at_end = True
            data = END_OF_FILE if self._is_terminal else b""
        if data:
            self._pieces.append(data)
        is_end = self._is_at_end and not self._is_terminal
        # What is typed after a change comes after it: the signal may be late.
        sending.send(data, is_end=is_end, window=self._changed_window())

    def _changed_window(self) -> tuple[int, int] | None:
        """Return the size of the terminal if it is not the one that was sent."""
        try:
            columns, rows = os.get_terminal_size(self._source) if self._is_terminal else (0, 0)
        except OSError:  # it is a pipe
            return None
        if (rows, columns) in ((0, 0), self._window):
            return None
        self._window = rows, columns
        return self._window

    def _acknowledged(self, written: InputWritten, sending: _Sending) -> None:
        if not written.is_open:
            self._is_over = True
            return
        while self._pieces and self._offset < written.offset:
            count = min(len(self._pieces[0]), written.offset - self._offset)
            rest = self._pieces.popleft()[count:]
            if rest:
                self._pieces.appendleft(rest)
            self._offset += count
        if not sending.is_awaited and self._offset < sending.end:
            raise ConnectionLost("not-taken", "the task has not got all: it is sent again")


class _Sending:
    """The requests over one connection."""

    def __init__(self, client: Client, first: WriteInput | WriteStep, offset: int) -> None:
        self._client = client
        self._first = first
        self.end = offset
        """Offset of what is sent next."""
        self._numbers: deque[int] = deque()

    @property
    def is_awaited(self) -> bool:
        """Whether an answer is missing."""
        return bool(self._numbers)

    def send(self, content: bytes, *, is_end: bool, window: tuple[int, int] | None = None) -> None:
        """Send a piece."""
        body = replace(self._first, offset=self.end, content=content, is_end=is_end, window=window)
        self._numbers.append(self._client.channel.begin(body))
        self.end += len(content)

    def next_answer(self) -> InputWritten | None:
        """Return the next answer that has come."""
        if not self._numbers:
            return None
        written = self._client.channel.poll(self._numbers[0], InputWritten, 0.0)
        if written is not None:
            self._numbers.popleft()
        return written
