"""Sends output of tasks of other homes to these homes, within the credit that they give.

Pure: the caller passes time in, sends what is returned, and reads files for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from iriai.model.ids import AttemptId
from iriai.model.job import OUTPUTS
from iriai.protocol.messages.effects import Part, Send
from iriai.protocol.messages.streams import CREDIT_BYTES, PIECE_BYTES, AskOutput, Output

PATIENCE_S = 10.0
"""Longest silence while there is no new output: then the home knows that the link works."""
ASKED_MAX = 1000
"""Outputs that are followed at once, of all homes. For one more the first is dropped: its home asks
again after a while."""

Read = Callable[[AttemptId, str, int, int], bytes]
"""Returns output of an attempt and kind, from an offset on, at most so many bytes."""


@dataclass(slots=True)
class _Asked:
    """What a home has asked for."""

    sent: int
    until: int
    """Where its credit ends."""
    due_s: float
    """When it hears that there is nothing new."""


class OutputSource:
    """The outputs that other homes follow."""

    def __init__(self, read: Read, runs: Callable[[AttemptId], bool]) -> None:
        """`runs` returns whether an attempt is not over here, so that more may come."""
        self._read = read
        self._runs = runs
        self._asked: dict[tuple[AttemptId, str], _Asked] = {}

    def next_s(self) -> float | None:
        """Return when `wake` has something to do, on the steady clock; None: never."""
        return min((each.due_s for each in self._asked.values()), default=None)

    def ask(self, ask: AskOutput, now_s: float) -> list[Send]:
        """Handle a question of a home; `protocol.delivery.authorization` checked that it may."""
        if ask.kind not in OUTPUTS:
            return []
        key = ask.attempt, ask.kind
        until = ask.offset + min(ask.credit_bytes, CREDIT_BYTES)
        asked = self._asked.get(key)
        if asked is None or ask.is_first:
            self._asked.pop(key, None)
            if len(self._asked) >= ASKED_MAX:
                del self._asked[next(iter(self._asked))]
            self._asked[key] = _Asked(ask.offset, until, now_s + PATIENCE_S)
        elif asked.sent <= until:
            asked.until = until
        return self.grown(*key, now_s)

    def grown(self, attempt: AttemptId, kind: str, now_s: float) -> list[Send]:
        """Send what is new of an output, as far as its home wants it."""
        asked = self._asked.get((attempt, kind))
        if asked is None:
            return []
        sends: list[Send] = []
        while asked.sent < asked.until:
            # Before the file is read: the output of an attempt that is over is complete.
            is_over = not self._runs(attempt)
            room = min(PIECE_BYTES, asked.until - asked.sent)
            content = self._read(attempt, kind, asked.sent, room)
            is_complete = is_over and len(content) < room
            if not (content or is_complete):
                break
            sends.append(_send(attempt, Output(attempt, kind, asked.sent, content, is_complete)))
            asked.sent += len(content)
            asked.due_s = now_s + PATIENCE_S
            if is_complete:
                del self._asked[attempt, kind]
                break
        return sends

    def ended(self, attempt: AttemptId, now_s: float) -> list[Send]:
        """Send the rest of an attempt that is over."""
        return [each for kind in OUTPUTS for each in self.grown(attempt, kind, now_s)]

    def wake(self, now_s: float) -> list[Send]:
        """Say that there is nothing new where nothing was said for long."""
        sends: list[Send] = []
        for (attempt, kind), asked in list(self._asked.items()):
            if asked.due_s > now_s:
                continue
            news = self.grown(attempt, kind, now_s)
            asked.due_s = now_s + PATIENCE_S
            nothing = Output(attempt, kind, asked.sent, b"", is_complete=False)
            sends += news or [_send(attempt, nothing)]
        return sends


def _send(attempt: AttemptId, output: Output) -> Send:
    return Send(attempt.home, Part.STREAMS, output)
