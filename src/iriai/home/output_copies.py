"""Fetches output of this home's tasks from other machines while they run.

A copy is requested from its end on, with a credit that is renewed as it is used. So a lost piece is
requested again, a repeated one is recognized as old, and a daemon that restarts continues.

Pure: the caller passes time in, sends what is returned, and stores the pieces.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple, Protocol

from iriai.model.ids import AttemptId
from iriai.model.job import OUTPUTS, STREAM_BYTES_MAX
from iriai.protocol.messages.effects import Part, Send
from iriai.protocol.messages.streams import CREDIT_BYTES, AskOutput, Output

ANSWER_S = 15.0
"""Time without an answer after which it asks again: half as long again as a node takes to answer
that there is nothing new."""
ASKS_MAX = 2
"""Number of requests for an attempt that is over: its machine may be offline. While it runs, its
lease decides."""
COPIES_MAX = 10_000
"""Attempts whose machines are remembered; for older ones a client asks again."""


class CopyKey(NamedTuple):
    """One output of one attempt."""

    attempt: AttemptId
    kind: str


class OutputStorage(Protocol):
    """Where copies are stored."""

    def size_bytes(self, attempt: AttemptId, kind: str) -> int:
        """Return how much is stored; 0 if there is nothing."""

    def append(self, attempt: AttemptId, kind: str, content: bytes) -> int:
        """Append `content`; return how much of it was stored. Raises OSError."""


class _Copy:
    __slots__ = ("asks", "due_s", "is_complete", "machine", "problem", "size_bytes", "until")

    def __init__(self, machine: str, size_bytes: int) -> None:
        self.machine = machine
        self.size_bytes = size_bytes
        self.until = 0
        """Where the credit ends."""
        self.is_complete = False
        self.asks = 0
        """Requests since the last answer."""
        self.problem = ""
        """Why it cannot be stored here."""
        self.due_s: float | None = None
        """When it asks again; None: it does not."""


class OutputCopies:
    """The copies of output of this home's tasks on other machines."""

    def __init__(self, storage: OutputStorage, is_running: Callable[[AttemptId], bool]) -> None:
        """`is_running` returns whether the home still waits for the end of an attempt."""
        self._storage = storage
        self._is_running = is_running
        self._copies: OrderedDict[CopyKey, _Copy] = OrderedDict()

    def next_s(self) -> float | None:
        """Return when `wake` has something to do, on the steady clock; None: never."""
        due = (each.due_s for each in self._copies.values() if each.due_s is not None)
        return min(due, default=None)

    def begin(self, attempt: AttemptId, machine: str, now_s: float) -> list[Send]:
        """Fetch the attempt's output, unless that is in progress or done.

        The attempt has begun there: a machine that does not know it answers that nothing will come.
        """
        sends: list[Send] = []
        for kind in OUTPUTS:
            key = CopyKey(attempt, kind)
            copy = self._copies.get(key)
            if copy is None:
                size_bytes = self._storage.size_bytes(attempt, kind)
                copy = self._copies[key] = _Copy(machine, size_bytes)
                while len(self._copies) > COPIES_MAX:
                    self._copies.popitem(last=False)
            if copy.due_s is None and not copy.is_complete:
                copy.asks = 0
                sends += self._ask(key, copy, now_s)
        return sends

    def forget(self, attempt: AttemptId) -> None:
        """Forget where an attempt's output comes from."""
        for kind in OUTPUTS:
            self._copies.pop(CopyKey(attempt, kind), None)

    def machine_of(self, attempt: AttemptId) -> str:
        """Return where an attempt's output comes from; empty if from nowhere else."""
        copy = self._copies.get(CopyKey(attempt, OUTPUTS[0]))
        return copy.machine if copy is not None else ""

    def linked(self, machine: str, now_s: float) -> list[Send]:
        """Ask again what a machine was asked before its link broke."""
        return [
            send
            for key, copy in self._copies.items()
            if copy.machine == machine and copy.due_s is not None
            for send in self._ask(key, copy, now_s)
        ]

    def receive(self, sender: str, output: Output, now_s: float) -> list[Send]:
        """Store a piece; return the request for more if its credit is half used."""
        key = CopyKey(output.attempt, output.kind)
        copy = self._copies.get(key)
        if copy is None or copy.machine != sender or copy.due_s is None:
            return []
        if output.offset != copy.size_bytes:
            return []  # repeated
        copy.due_s, copy.asks = None, 0
        if copy.size_bytes + len(output.content) > STREAM_BYTES_MAX:
            copy.problem = f"beyond {STREAM_BYTES_MAX >> 20} MiB it is not kept here"
            return []
        try:
            written = self._storage.append(*key, output.content) if output.content else 0
        except OSError as error:
            copy.problem = f"the rest of it cannot be kept here: {error.strerror}"
            return []
        copy.size_bytes += written
        is_whole = written == len(output.content)
        copy.is_complete = output.is_complete and is_whole
        if copy.is_complete:
            return []
        copy.due_s = now_s + ANSWER_S
        if not is_whole or copy.until - copy.size_bytes <= CREDIT_BYTES // 2:
            return self._ask(key, copy, now_s, is_first=not is_whole)
        return []

    def wake(self, now_s: float) -> list[Send]:
        """Ask again what was not answered for long."""
        sends: list[Send] = []
        for key, copy in self._copies.items():
            if copy.due_s is not None and copy.due_s <= now_s:
                sends += self._ask(key, copy, now_s)
        return sends

    def state(self, key: CopyKey, offset: int) -> tuple[bool, str]:
        """Return whether nothing follows after `offset`, and why the rest is lost, if it is."""
        copy = self._copies.get(key)
        if copy is None:  # it has not begun, or is requested after its end
            return not self._is_running(key.attempt), ""
        if offset < copy.size_bytes:
            return False, ""
        if copy.due_s is None and not copy.is_complete:
            lost = f"the rest of it is on {copy.machine}, which does not answer"
            return True, copy.problem or lost
        return copy.is_complete, ""

    def _ask(self, key: CopyKey, copy: _Copy, now_s: float, *, is_first: bool = True) -> list[Send]:
        copy.due_s = None
        if copy.asks >= ASKS_MAX and not self._is_running(key.attempt):
            return []
        copy.asks += 1
        copy.due_s = now_s + ANSWER_S
        copy.until = copy.size_bytes + CREDIT_BYTES
        ask = AskOutput(*key, copy.size_bytes, CREDIT_BYTES, is_first)
        return [Send(copy.machine, Part.STREAMS, ask)]
