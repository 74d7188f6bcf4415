"""Moves what a task prints from its pipe, or its terminal, into a file."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable
from concurrent.futures import Executor

PIECE_BYTES = 1 << 20
"""Of one move: as much as a pipe holds."""
REOPENED_S = 0.5
"""Between two looks at a terminal that no process has open: one may open it again by name."""
TURN_BYTES = 8 << 20
"""So much at once, before others are served."""


class OutputPump:
    """One pipe and its file.

    The moves are done in a thread, since a disk may be slow; what decides is in the event loop.
    """

    def __init__(
        self,
        source: int,
        file: int,
        threads: Executor,
        on_grown: Callable[[], None],
        on_problem: Callable[[str], None],
        *,
        is_terminal: bool,
    ) -> None:
        """`source` and `file` are closed by `finish` or `close`.

        `on_problem` is called once where the file cannot be written; the task then waits.
        """
        self.size_bytes = os.fstat(file).st_size
        self._source = source
        self._file = file
        self._threads = threads
        self._on_grown = on_grown
        self._on_problem = on_problem
        self._is_terminal = is_terminal
        self._move = self._copy if is_terminal else self._splice
        self._is_moving = False
        self._is_read = False
        self._has_failed = False
        self._is_closing = False
        self._on_empty: Callable[[], None] | None = None
        self._loop = asyncio.get_running_loop()
        self._listen()

    def finish(self, on_empty: Callable[[], None]) -> None:
        """Move what is left; then close both and call `on_empty`. No process writes any more."""
        self._on_empty = on_empty
        if self._source < 0:
            on_empty()
        elif not self._is_moving:
            self._begin()

    def close(self) -> None:
        """Stop; what is in the pipe stays there for the next daemon."""
        self._is_closing = True
        self._ignore()
        if self._source >= 0 and not self._is_moving:
            os.close(self._source)
            os.close(self._file)
            self._source = -1

    def _listen(self) -> None:
        if self._is_read or self._is_moving or self._is_closing or self._source < 0:
            return
        self._is_read = True
        self._loop.add_reader(self._source, self._begin)

    def _ignore(self) -> None:
        if self._is_read:
            self._is_read = False
            self._loop.remove_reader(self._source)

    def _begin(self) -> None:
        self._ignore()
        self._is_moving = True
        future = self._loop.run_in_executor(self._threads, self._move_all)
        future.add_done_callback(self._moved)

    def _move_all(self) -> tuple[int, bool]:
        """Move what is there, up to `TURN_BYTES`; return its size, and whether more may come."""
        moved = 0
        while moved < TURN_BYTES:
            try:
                count = self._move(self.size_bytes + moved)
            except BlockingIOError:
                return moved, True
            if not count:
                return moved, False
            moved += count
        return moved, True

    def _splice(self, offset: int) -> int:
        flags = os.SPLICE_F_NONBLOCK
        try:
            return os.splice(self._source, self._file, PIECE_BYTES, offset_dst=offset, flags=flags)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            self._move = self._copy  # its file system has no splice
            return self._copy(offset)

    def _copy(self, offset: int) -> int:
        try:
            data = os.read(self._source, PIECE_BYTES)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            data = b""  # no process has the terminal open any more
        return os.pwrite(self._file, data, offset)

    def _moved(self, result: asyncio.Future[tuple[int, bool]]) -> None:
        self._is_moving = False
        problem = result.exception()
        moved, is_open = (0, False) if problem is not None else result.result()
        self.size_bytes += moved
        if moved:
            self._on_grown()
        if isinstance(problem, OSError) and not self._has_failed:
            self._has_failed = True
            self._on_problem(problem.strerror or "")
        elif problem is not None and not isinstance(problem, OSError):
            raise problem
        if self._is_closing or (self._on_empty is not None and not (moved and is_open)):
            self.close()
            if self._on_empty is not None:
                self._on_empty()
        elif self._on_empty is not None:
            self._begin()
        elif is_open:
            self._listen()
        elif self._is_terminal:
            self._loop.call_later(REOPENED_S, self._listen)
