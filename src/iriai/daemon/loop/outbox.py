"""What leaves the machine, held back until the records before it are durable."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

Action = Callable[[], None]


class Outbox:
    """Actions in order, each behind the sequence number of the write that it waits for."""

    def __init__(self) -> None:
        self._durable = 0
        self._gate = 0
        self._held: deque[tuple[int, Action]] = deque()

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits."""
        return not self._held

    def close_gate(self, sequence: int) -> None:
        """From now on actions wait for the write `sequence`."""
        assert sequence >= self._gate
        self._gate = sequence

    def send(self, action: Action) -> None:
        """Perform `action` when everything written so far is durable: now, if it is."""
        if self._gate <= self._durable and not self._held:
            action()
        else:
            self._held.append((self._gate, action))

    def durable(self, sequence: int) -> None:
        """Writes up to `sequence` are durable."""
        self._durable = max(self._durable, sequence)
        while self._held and self._held[0][0] <= self._durable:
            self._held.popleft()[1]()
