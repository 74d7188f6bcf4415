"""The state of the link with one other machine: up, being made, or to be made again."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from random import Random

import msgspec

from iriai.daemon.net.link import MachineLink
from iriai.protocol.messages.effects import Send

HELD_BYTES_MAX = 4 << 20
"""What waits for a link that is being made; more is lost, and repeated by those who need it."""
HELD_S = 10.0
"""How long it waits. Longer, and what is said is older than what has happened meanwhile."""
RETRY_MIN_S = 0.1
"""A machine that was only restarted is back within a second or two."""
LASTED_S = 30.0
"""A link that lasted so long was a good one: after it, pauses are short again. One that breaks
sooner does so for a reason that is still there, such as a copy of either machine elsewhere, and a
machine that tried again at once would break the other's link ten times a second."""
RETRY_MAX_S = 30.0
"""The longest pause between two attempts: what a machine that comes back waits for at most."""

_encoded_bytes = msgspec.msgpack.Encoder().encode


@dataclass(slots=True, eq=False)
class PeerConnection:
    """One other machine."""

    name: str
    link: MachineLink | None = None
    is_direct: bool = False
    """Whether no relay lies between."""
    is_ours: bool = False
    """Whether this machine dialled: it is the one that closes what is idle."""
    certificate: bytes = b""
    instance: str = ""
    """The one that was linked last; empty: none ever was."""
    dialling: asyncio.Task[None] | None = None
    retry: asyncio.TimerHandle | None = None
    pause_s: float = RETRY_MIN_S
    answered_until_s: float = 0.0
    """It dialled us and was told yes: until then it may say `Begin`, and we do not dial."""
    is_wanted: bool = False
    """A link broke, and something said on it may be lost: it is made again as soon as it can."""
    is_lossy: bool = True
    """Something that was said since the last `LinkUp` may be lost."""
    is_up: bool = False
    """What the cores were told last."""
    problem: str = "it was never linked"
    """Why there is no link."""
    since_wall_s: float = 0.0
    """Since when it is as it is."""
    sent_bytes: int = 0
    """Over links that are over."""
    received_bytes: int = 0
    held: list[Send] = field(default_factory=list)
    held_bytes: int = 0
    held_until_s: float = 0.0

    def hold(self, sends: list[Send], now_steady_s: float) -> bool:
        """Keep these until there is a link; False where there is no room: then they are lost."""
        size_bytes = sum(len(_encoded_bytes(send.message)) for send in sends)
        if self.held_bytes + size_bytes > HELD_BYTES_MAX:
            self.is_lossy = True
            return False
        if not self.held:
            self.held_until_s = now_steady_s + HELD_S
        self.held += sends
        self.held_bytes += size_bytes
        return True

    def release(self) -> list[Send]:
        """What was held, no longer."""
        held, self.held, self.held_bytes = self.held, [], 0
        return held

    def next_pause_s(self, rng: Random) -> float:
        """How long to wait before the next attempt: doubled each time, from half to all of it."""
        pause_s, self.pause_s = self.pause_s, min(RETRY_MAX_S, 2 * self.pause_s)
        return pause_s * (0.5 + rng.random() / 2)

    def count(self, link: MachineLink) -> None:
        """A link is over: what went over it stays counted, and whether it was a good one."""
        if link.lived_s >= LASTED_S:
            self.pause_s = RETRY_MIN_S
        self.sent_bytes += link.sent_bytes
        self.received_bytes += link.received_bytes

    @property
    def totals_bytes(self) -> tuple[int, int]:
        """Sent and received, over all links so far."""
        link = self.link
        if link is None:
            return self.sent_bytes, self.received_bytes
        return self.sent_bytes + link.sent_bytes, self.received_bytes + link.received_bytes

    @property
    def is_needed(self) -> bool:
        """Whether a link is to be made."""
        return self.link is None and (self.is_wanted or bool(self.held))
