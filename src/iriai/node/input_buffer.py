"""Input of a task that has come and was not written to it yet. Pure."""

from __future__ import annotations

from collections import deque

from iriai.model.submission import INPUT_BYTES_MAX


class InputBuffer:
    """What a task is to read next.

    Input comes with its offset, so that a sender which does not know what arrived sends it again:
    each byte is taken once, in order, or not at all.
    """

    def __init__(self, written: int = 0) -> None:
        """`written` is how much was written to the task before."""
        self.written = written
        """Offset of the first byte that was not written to the task."""
        self.is_ending = False
        """Whether nothing follows what is here."""
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0

    @property
    def is_empty(self) -> bool:
        """Whether all that came was written."""
        return not self._waiting

    def take(self, offset: int, content: bytes, *, is_end: bool) -> bool:
        """Append `content`; return whether it follows what came before, and has room."""
        end = self.written + self._waiting_bytes
        has_room = self._waiting_bytes + len(content) <= INPUT_BYTES_MAX
        if offset != end or not has_room or (self.is_ending and content):
            return False
        if content:
            self._waiting.append(content)
            self._waiting_bytes += len(content)
        self.is_ending |= is_end
        return True

    def first(self) -> bytes:
        """Return what is to be written next."""
        return self._waiting[0]

    def wrote(self, count: int) -> None:
        """Note that `count` bytes of the first piece were written."""
        content = self._waiting.popleft()
        if count < len(content):
            self._waiting.appendleft(content[count:])
        self.written += count
        self._waiting_bytes -= count

    def clear(self) -> None:
        """Drop what was not written: nobody reads it."""
        self._waiting.clear()
        self._waiting_bytes = 0
