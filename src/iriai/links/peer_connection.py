"""The state of the link with one other machine: up, being made, or to be made again."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import msgspec

from iriai.links.attempt import Attempt
from iriai.links.session import LinkSession
from iriai.protocol.messages.effects import Send

HELD_BYTES_MAX = 4 << 20
"""Messages that wait for a link that is being made; more are lost, and repeated if needed."""
HELD_S = 10.0
"""How long they wait; later they would be out of date."""
RETRY_MIN_S = 0.1
"""A machine that was only restarted is back within a second or two."""
LASTED_S = 30.0
"""After a link that lasted so long, pauses are short again. One that breaks sooner does so for a
reason that persists, such as a copy of either machine elsewhere: with short pauses the two copies
would break each other's links ten times a second."""
RETRY_MAX_S = 30.0
"""The longest pause between two attempts, and so the longest wait for a machine that returns."""

_encoded_bytes = msgspec.msgpack.Encoder().encode


@dataclass(slots=True, eq=False)
class PeerConnection:
    """Links with one other machine, messages that wait for one, and attempts to make one."""

    name: str
    link: LinkSession | None = None
    is_direct: bool = False
    """Whether no relay lies, or lay, between."""
    instance: str = ""
    """The instance that was linked last; empty: none was."""
    attempt: Attempt | None = None
    """The running attempt to make a link."""
    retry_at_s: float | None = None
    """When the next attempt is due; None: none is."""
    pause_s: float = RETRY_MIN_S
    answered_until_s: float = 0.0
    """It dialled and was accepted: until then it may send `Begin`, and is not dialled."""
    is_wanted: bool = False
    """A link broke, and messages may be lost: it is made again as soon as possible."""
    is_lossy: bool = True
    """Messages since the last `LinkUp` may be lost."""
    is_up: bool = False
    """Whether the cores' last event was `LinkUp`."""
    problem: str = "it was never linked"
    """Why there is no link."""
    since_wall_s: float = 0.0
    """When the state of the link changed last."""
    sent_bytes: int = 0
    """Over closed links."""
    received_bytes: int = 0
    held: list[Send] = field(default_factory=list)
    held_bytes: int = 0
    held_until_s: float = 0.0

    def hold(self, sends: list[Send], now_steady_s: float) -> None:
        """Keep messages until there is a link; if there is no room they are lost."""
        size_bytes = sum(len(_encoded_bytes(send.message)) for send in sends)
        if self.held_bytes + size_bytes > HELD_BYTES_MAX:
            self.is_lossy = True
            return
        if not self.held:
            self.held_until_s = now_steady_s + HELD_S
        self.held += sends
        self.held_bytes += size_bytes

    def release(self) -> list[Send]:
        """Return the kept messages, and keep none."""
        held, self.held, self.held_bytes = self.held, [], 0
        return held

    def next_pause_s(self, rng: Random) -> float:
        """Return the pause before the next attempt: doubled each time, and half of it random."""
        pause_s, self.pause_s = self.pause_s, min(RETRY_MAX_S, 2 * self.pause_s)
        return pause_s * (0.5 + rng.random() / 2)

    def begin(self, link: LinkSession, now_wall_s: float) -> None:
        """Record a new link."""
        self.link = link
        self.is_lossy |= self.instance != link.instance
        self.is_direct, self.instance = link.is_direct, link.instance
        self.is_wanted = False
        self.answered_until_s = 0.0
        self.problem, self.since_wall_s = "", now_wall_s

    def count(self, link: LinkSession, now_steady_s: float) -> None:
        """Add the bytes of a closed link; after one that lasted, make pauses short again."""
        if now_steady_s - link.began_s >= LASTED_S:
            self.pause_s = RETRY_MIN_S
        self.sent_bytes += link.sent_bytes
        self.received_bytes += link.received_bytes

    @property
    def totals_bytes(self) -> tuple[int, int]:
        """Bytes sent and received, over all links so far."""
        link = self.link
        if link is None:
            return self.sent_bytes, self.received_bytes
        return self.sent_bytes + link.sent_bytes, self.received_bytes + link.received_bytes

    @property
    def is_needed(self) -> bool:
        """Whether a link is to be made."""
        return self.link is None and (self.is_wanted or bool(self.held))
