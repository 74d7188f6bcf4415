"""Writes to a task's standard input, or its terminal, what its client sent."""

from __future__ import annotations

import asyncio
import fcntl
import os
import struct
import termios
from collections.abc import Callable
from contextlib import suppress

from iriai.node.input_buffer import InputBuffer

_MARKS = struct.Struct("<QQ")
"""What was written, and how much of it was being written when this was noted."""


class LostPlace(Exception):
    """A daemon ended while it wrote: nobody knows how much the task has got."""


class InputPipe:
    """One pipe.

    How far it was written is noted in a file before and after each write, so that the next daemon
    continues exactly there, or knows that it cannot.
    """

    def __init__(self, fd: int, marks: int, on_news: Callable[[], None]) -> None:
        """`fd` and `marks` are closed by `close`; `on_news` is called after each step.

        Raises `LostPlace`.
        """
        written, unsure = _MARKS.unpack(os.pread(marks, _MARKS.size, 0) or bytes(_MARKS.size))
        self._fd = fd
        self._marks = marks
        self._on_news = on_news
        self._loop = asyncio.get_running_loop()
        self._is_writing = False
        self.is_open = True
        """Whether the task may read what is sent."""
        self.buffer = InputBuffer(written)
        if unsure:
            self.close()
            raise LostPlace

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to be written."""
        return not self.is_open or self.buffer.is_empty

    def take(self, offset: int, content: bytes, *, is_end: bool) -> None:
        """Write this next; without effect if it is not what comes next, or has no room."""
        if self.is_open and self.buffer.take(offset, content, is_end=is_end):
            self._write()

    def end(self) -> None:
        """Close it after what has come: nobody sends more."""
        if self.is_open:
            self.buffer.is_ending = True
            if not self._is_writing:
                self._write()

    def resize(self, rows: int, columns: int) -> None:
        """Set the size of the terminal."""
        if self.is_open:
            size = struct.pack("HHHH", rows & 0xFFFF, columns & 0xFFFF, 0, 0)
            with suppress(OSError):
                fcntl.ioctl(self._fd, termios.TIOCSWINSZ, size)

    def close(self) -> None:
        """Close it; the task reads its end once the launcher has closed it too."""
        if self.is_open:
            self._stop_writing()
            self.is_open = False
            self.buffer.clear()
            os.close(self._fd)
            os.close(self._marks)

    def _write(self) -> None:
        buffer = self.buffer
        while not buffer.is_empty:
            content = buffer.first()
            os.pwrite(self._marks, _MARKS.pack(buffer.written, len(content)), 0)
            try:
                count = os.write(self._fd, content)
            except BlockingIOError:
                count = 0
            except OSError:  # nobody can read it any more
                self.close()
                self._on_news()
                return
            buffer.wrote(count) if count else None
            os.pwrite(self._marks, _MARKS.pack(buffer.written, 0), 0)
            if not count:
                self._wait()
                return
        self._stop_writing()
        if buffer.is_ending:
            self.close()
        self._on_news()

    def _wait(self) -> None:
        if not self._is_writing:
            self._is_writing = True
            self._loop.add_writer(self._fd, self._write)

    def _stop_writing(self) -> None:
        if self._is_writing:
            self._is_writing = False
            self._loop.remove_writer(self._fd)
