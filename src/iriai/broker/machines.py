"""What a broker believes of one machine; the machine knows better, and may refuse."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from iriai.broker.queues import Entry
from iriai.model.ids import AttemptId
from iriai.model.reason import Reason
from iriai.model.resources import Resources
from iriai.policy.calendar import Calendar
from iriai.protocol.messages import Capability, Idle

MATCH_UNTIL_S = 10.0
"""How long a place is kept for a match whose claim has not been seen: the life of a tentative
claim (design.md section 2)."""


class Matched(NamedTuple):
    """A match under way."""

    until_s: float
    """On the steady clock; if nothing was heard of it by then, it is over."""
    entry: Entry


class MachineView:
    """Calendar, capabilities and matches under way of one machine."""

    def __init__(self, name: str, capacity: Resources) -> None:
        self.name = name
        self.calendar: Calendar[AttemptId | Capability] = Calendar(capacity)
        self.capabilities: deque[Capability] = deque()
        self.matched: dict[Capability, Matched] = {}
        """Handed on and not seen again, oldest first."""
        self.unavailable: Reason | None = None
        self.speed = 1.0
        self.load = 0.0
        self.foreign_load = 0.0
        self.incarnation = -1
        self.version = -1

    @property
    def is_open(self) -> bool:
        """Whether anything could be started there now."""
        return bool(self.capabilities) and self.calendar.free.cpus > 0 and not self.unavailable

    def is_stale(self, idle: Idle) -> bool:
        """Whether a report is older than what is known."""
        return (idle.incarnation, idle.version) <= (self.incarnation, self.version)

    def match(self, entry: Entry, now_s: float) -> Capability:
        """Use a capability for a task of `entry`; its place is kept for a while."""
        capability = self.capabilities.popleft()
        self.calendar.add(capability, entry.want.resources, now_s, entry.stay_s)
        self.matched[capability] = Matched(now_s + MATCH_UNTIL_S, entry)
        return capability

    def settle_match(self, capability: Capability) -> bool:
        """The match is over, whatever came of it; False where there was none."""
        if self.matched.pop(capability, None) is None:
            return False
        return self.calendar.remove(capability)

    def check(self) -> None:
        """Raise where places and matches do not go together: (a) as the broker sees it."""
        self.calendar.check()
        for capability in self.matched:
            assert capability in self.calendar, f"{capability} has no place"
        assert len(set(self.capabilities)) == len(self.capabilities), "a capability twice"

    def forget(self, capability: Capability) -> None:
        """The machine has seen it: it is good for nothing any more."""
        if capability in self.capabilities:
            self.capabilities.remove(capability)
