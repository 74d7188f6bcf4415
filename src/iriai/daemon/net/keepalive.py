"""Keepalive of a link: what was sent, what was received, and when to ping.

Input: moments of the steady clock, when something is said or comes. Output: whether a ping is due,
and whether the other end is silent. Over a network every frame costs, some two hundred bytes of a
machine that has nothing to do: what is an answer itself asks for none (docs/adr/0073).
"""

from __future__ import annotations

from iriai.model.instant import SILENCE_S
from iriai.wire.links import QUIET_S

PINGS = 5
"""In the time after which a machine that says nothing is taken for away; so long an answer is
waited for before one."""


class Keepalive:
    """Decides when to ping, and whether the peer is silent. Times are of the steady clock."""

    def __init__(self, now_s: float, *, is_network: bool, silence_s: float = SILENCE_S) -> None:
        """`is_network`: frames cost, and the other end is pinged only where there is a reason.

        `silence_s`: after which the other end is taken for away.
        """
        self.silence_s = silence_s
        self.ping_s = silence_s / PINGS
        """Between two pings."""
        self.received_s = now_s
        """When anything came."""
        self._is_network = is_network
        self._asked_s: float | None = None
        """When something that an answer is due to was sent; None: nothing since `received_s`."""
        self._looked_s = now_s

    def sent(self, now_s: float, *, is_answer: bool) -> None:
        """Something was said; `is_answer`: nobody at either end waits for a sign that it came."""
        if self._asked_s is None and not is_answer:
            self._asked_s = now_s

    def received(self, now_s: float) -> None:
        """Something came: the other end was there."""
        self.received_s = now_s
        self._asked_s = None

    def looked(self, now_s: float) -> float:
        """It is looked at; how long ago it was the last time: longer than asked for if we slept."""
        pause_s, self._looked_s = now_s - self._looked_s, now_s
        return pause_s

    def is_silent(self, now_s: float) -> bool:
        """Whether the other end should have said something long since."""
        since_s = self._asked_s if self._is_network else self.received_s
        return since_s is not None and now_s - since_s > self.silence_s

    def is_ping_due(self, now_s: float) -> bool:
        """Whether it is time to ask whether the other end is there."""
        if not self._is_network:
            return True
        if self._asked_s is not None:
            return now_s - self._asked_s >= self.ping_s
        return now_s - self.received_s >= QUIET_S

    def give_time(self, time_s: float, now_s: float) -> None:
        """The other end has at least so much more time to say something."""
        since_s = now_s - self.silence_s + time_s
        self.received_s = max(self.received_s, since_s)
        if self._asked_s is not None:
            self._asked_s = max(self._asked_s, since_s)
