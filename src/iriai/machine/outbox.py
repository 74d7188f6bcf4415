"""Persist before send: what leaves a machine waits for the records that were written before it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from iriai.model.records import Record
from iriai.protocol.messages.effects import Effect


@dataclass(slots=True)
class Turn:
    """The effects of one turn."""

    records: list[Record]
    is_urgent: bool
    """True if something outward waits for the records."""
    outward: list[Effect]


Action = Callable[[], None]


class Outbox:
    """Effects that leave the machine, held back until the records before them are durable.

    Actions in order, each behind the sequence number of the write that it waits for.
    """

    def __init__(self) -> None:
        self._durable = 0
        self._gate = 0
        self._held: deque[tuple[int, Action]] = deque()

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits."""
        return not self._held

    def close_gate(self, sequence: int) -> None:
        """Make later actions wait for the write `sequence`, which is later than all before."""
        if sequence < self._gate:
            raise ValueError(f"write {sequence} after write {self._gate}")
        self._gate = sequence

    def send(self, action: Action) -> None:
        """Perform `action` once everything written so far is durable: now, if it is."""
        if self._gate <= self._durable and not self._held:
            action()
        else:
            self._held.append((self._gate, action))

    def durable(self, sequence: int) -> None:
        """Perform the actions that waited for writes up to `sequence`, which are durable."""
        self._durable = max(self._durable, sequence)
        while self._held and self._held[0][0] <= self._durable:
            self._held.popleft()[1]()
