"""The event queue: a heap with a total order, so that one seed is one story."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from math import inf

HAPPENING, STEP = 0, 1
"""At one moment all that happens (messages, faults, people) comes before machines take a step, so
that a machine takes it in as one turn."""

Action = Callable[[], object]
"""Its result is ignored."""


class EventQueue:
    """Actions by time in seconds of the world, then by priority, then in order of entry."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._entries: list[tuple[float, int, int, Action]] = []
        self._steps: deque[Action] = deque()
        """Steps that were entered for the moment in which they are: after all else of it. Most are,
        and a heap would order them in vain."""
        self._sequence = 0

    def at(self, time_s: float, action: Action, priority: int = HAPPENING) -> None:
        """Call `action` at a time; in this moment if that is past."""
        if time_s <= self.now_s:
            if priority == STEP:
                self._steps.append(action)
                return
            time_s = self.now_s
        self._sequence += 1
        heappush(self._entries, (time_s, priority, self._sequence, action))

    def after(self, delay_s: float, action: Action) -> None:
        """Call `action` after a delay."""
        self.at(self.now_s + delay_s, action)

    @property
    def next_s(self) -> float:
        """The time of the next entry; infinite if there is none."""
        if self._steps:
            return self.now_s
        return self._entries[0][0] if self._entries else inf

    def run_until(self, until_s: float) -> None:
        """Run all entries up to a time, and set the clock to it unless it is infinite."""
        entries, steps = self._entries, self._steps
        while self.now_s <= until_s:
            if steps and not (entries and entries[0][0] <= self.now_s):
                steps.popleft()()
            elif entries and entries[0][0] <= until_s:
                self.now_s, _, _, action = heappop(entries)
                action()
            else:
                break
        if until_s < inf:
            self.now_s = max(self.now_s, until_s)

    def run_one(self) -> None:
        """Advance to the next entry and perform it."""
        entries = self._entries
        if self._steps and not (entries and entries[0][0] <= self.now_s):
            self._steps.popleft()()
            return
        self.now_s, _, _, action = heappop(entries)
        action()
