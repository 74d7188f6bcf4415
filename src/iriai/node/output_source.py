"""Sends output of tasks of other homes to these homes, within the credit that they give.

Pure: the caller passes time in, sends what is returned, and reads files for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import inf

from iriai.model.ids import AttemptId
from iriai.model.job import OUTPUTS
from iriai.policy.service.token_bucket import Rate, TokenBuckets
from iriai.protocol.messages.effects import Part, Send
from iriai.protocol.messages.streams import CREDIT_BYTES, PIECE_BYTES, AskOutput, Output

PATIENCE_S = 10.0
"""Longest silence while there is no new output: then the home knows that the link works."""
ASKED_MAX = 1000
"""Outputs of one home that are followed at once. For one more the first is dropped: the home asks
again after a while."""
REREAD = Rate(per_s=16 << 20, burst=128 << 20)
"""Bytes read for one home that were printed before it asked. What is printed while it follows is
read once, but it may begin anew as often as it likes."""

Read = Callable[[AttemptId, str, int, int], bytes]
"""Returns output of an attempt and kind, from an offset on, at most so many bytes."""
SizeBytes = Callable[[AttemptId, str], int]
"""Returns how much output there is of an attempt and kind."""


@dataclass(slots=True)
class _Asked:
    """What a home has asked for."""

    sent: int
    until: int
    """Where its credit ends."""
    due_s: float
    """When it hears that there is nothing new."""
    old_until: int
    """Where that ends which was printed before it asked."""
    resumes_s: float = inf
    """When it gets more of that, if it had too much at once."""

    @property
    def wakes_s(self) -> float:
        return min(self.due_s, self.resumes_s)


class OutputSource:
    """The outputs that other homes follow."""

    def __init__(
        self, read: Read, size_bytes: SizeBytes, runs: Callable[[AttemptId], bool]
    ) -> None:
        """`runs` returns whether an attempt is not over here, so that more may come."""
        self._read = read
        self._size_bytes = size_bytes
        self._runs = runs
        self._asked: dict[str, dict[tuple[AttemptId, str], _Asked]] = {}
        """By home."""
        self._reread: TokenBuckets[str] = TokenBuckets(REREAD)

    def next_s(self) -> float | None:
        """Return when `wake` has something to do, on the steady clock; None: never."""
        return min((each.wakes_s for _, each in self._all()), default=None)

    def ask(self, ask: AskOutput, now_s: float) -> list[Send]:
        """Handle a question of a home; `protocol.delivery.authorization` checked that it may."""
        if ask.kind not in OUTPUTS:
            return []
        key = ask.attempt, ask.kind
        until = ask.offset + min(ask.credit_bytes, CREDIT_BYTES)
        of_home = self._asked.setdefault(ask.attempt.home, {})
        asked = of_home.get(key)
        if asked is None or ask.is_first:
            of_home.pop(key, None)
            if len(of_home) >= ASKED_MAX:
                del of_home[next(iter(of_home))]
            of_home[key] = _Asked(ask.offset, until, now_s + PATIENCE_S, self._size_bytes(*key))
        elif asked.sent <= until:
            asked.until = min(until, asked.sent + CREDIT_BYTES)
        return self.grown(*key, now_s)

    def grown(self, attempt: AttemptId, kind: str, now_s: float) -> list[Send]:
        """Send what is new of an output, as far as its home wants it."""
        asked = self._asked.get(attempt.home, {}).get((attempt, kind))
        if asked is None:
            return []
        asked.resumes_s = inf
        if asked.sent >= asked.old_until:
            return self._send_news(attempt, kind, asked, now_s)
        budget = self._reread.of(attempt.home, now_s)
        if budget.available(now_s) <= 0:
            asked.resumes_s = now_s + budget.wait_s(now_s)
            return []
        begin = asked.sent
        sends = self._send_news(attempt, kind, asked, now_s)
        budget.spend(asked.sent - begin)
        return sends

    def ended(self, attempt: AttemptId, now_s: float) -> list[Send]:
        """Send the rest of an attempt that is over."""
        return [each for kind in OUTPUTS for each in self.grown(attempt, kind, now_s)]

    def wake(self, now_s: float) -> list[Send]:
        """Say that there is nothing new where nothing was said for long."""
        sends: list[Send] = []
        for (attempt, kind), asked in list(self._all()):
            if asked.wakes_s > now_s:
                continue
            news = self.grown(attempt, kind, now_s)
            if not news and asked.due_s <= now_s:
                asked.due_s = now_s + PATIENCE_S
                nothing = Output(attempt, kind, asked.sent, b"", is_complete=False)
                news = [_send(attempt, nothing)]
            sends += news
        return sends

    def _send_news(self, attempt: AttemptId, kind: str, asked: _Asked, now_s: float) -> list[Send]:
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
                self._forget(attempt, kind)
                break
        return sends

    def _all(self) -> Iterator[tuple[tuple[AttemptId, str], _Asked]]:
        for of_home in self._asked.values():
            yield from of_home.items()

    def _forget(self, attempt: AttemptId, kind: str) -> None:
        of_home = self._asked[attempt.home]
        del of_home[attempt, kind]
        if not of_home:
            del self._asked[attempt.home]


def _send(attempt: AttemptId, output: Output) -> Send:
    return Send(attempt.home, Part.STREAMS, output)
