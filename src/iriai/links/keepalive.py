"""Keepalive of a link: what was sent, what was received, and when to ping.

Input: the steady times of what is sent and received. Output: whether a ping is due, and whether the
other end is silent. Each frame of an idle machine costs some two hundred bytes, so
an answer needs no answer itself (docs/adr/0073).
"""

from __future__ import annotations

from iriai.model.instant import SILENCE_S
from iriai.wire.links import QUIET_S

PINGS = 5
"""Pings within `silence_s`: a ping follows a fifth of it without an answer."""


class Keepalive:
    """Decides when to ping, and whether the peer is silent. Times are of the steady clock."""

    def __init__(self, now_s: float, silence_s: float = SILENCE_S) -> None:
        """`silence_s`: time without an answer after which the other end is offline."""
        self.silence_s = silence_s
        self.ping_s = silence_s / PINGS
        """Between two pings."""
        self.received_s = now_s
        """When anything was received last."""
        self._asked_s: float | None = None
        """When something that needs an answer was sent; None: nothing since `received_s`."""
        self._polled_s = now_s

    def sent(self, now_s: float, *, is_answer: bool) -> None:
        """Note that something was sent; `is_answer`: it needs no answer itself."""
        if self._asked_s is None and not is_answer:
            self._asked_s = now_s

    def received(self, now_s: float) -> None:
        """Note that something was received: the other end is online."""
        self.received_s = now_s
        self._asked_s = None

    def polled(self, now_s: float) -> float:
        """Return the seconds since the last poll: long if this process was stopped."""
        pause_s, self._polled_s = now_s - self._polled_s, now_s
        return pause_s

    def is_silent(self, now_s: float) -> bool:
        """Whether the other end has not answered for `silence_s`."""
        return self._asked_s is not None and now_s - self._asked_s > self.silence_s

    def is_ping_due(self, now_s: float) -> bool:
        """Whether a ping should be sent now."""
        if self._asked_s is not None:
            return now_s - self._asked_s >= self.ping_s
        return now_s - self.received_s >= QUIET_S

    def forgive(self, pause_s: float, now_s: float) -> None:
        """Give the other end time to answer if this process was stopped for `pause_s`."""
        if pause_s > 2 * self.ping_s:
            since_s = now_s - self.silence_s + 2 * self.ping_s
            self.received_s = max(self.received_s, since_s)
            if self._asked_s is not None:
                self._asked_s = max(self._asked_s, since_s)
