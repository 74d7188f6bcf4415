"""Publishes to the machines when it is off-peak, by the loads that they report."""

from __future__ import annotations

from collections.abc import Iterable

from iriai.policy.accounting.offpeak import OffpeakRule
from iriai.protocol.messages.effects import Part, Send
from iriai.protocol.messages.scheduling import Idle, Quiet

REPEAT_S = 30.0
"""Half of the time for which nodes believe it: one message may be lost."""


class OffpeakPublisher:
    """The loads that machines report, and the off-peak factor last sent to them.

    One step for each report that brings a load; the machines are told on change, and again and
    again while it is off-peak, since old news count as peak.
    """

    def __init__(self, rule: OffpeakRule) -> None:
        self._rule = rule
        self._loads: dict[str, float] = {}
        """What the rule makes of each machine's load."""
        self._sum = 0.0
        self._updates = 0
        self.is_offpeak = False
        """Whether the published state is off-peak."""
        self.next_s: float | None = None
        """When the state must be published again; None: when a load changes."""
        self._has_news = False
        """Whether a load was reported, or is not known any more, since it was last published."""
        self._newcomers: list[str] = []
        """Came while it was off-peak, and were not told."""

    def measured(self, idle: Idle) -> None:
        """A report; one without a load says nothing."""
        if idle.is_load_known:
            if self.is_offpeak and idle.machine not in self._loads:
                self._newcomers.append(idle.machine)
            self._put(idle.machine, self._rule.measure(idle.load, max(1, idle.capacity.cpus)))

    def away(self, machine: str) -> None:
        """Drop the load of a machine that is away."""
        if machine in self._loads:
            self._sum -= self._loads.pop(machine)
            self._has_news = True
            self._count_update()

    def publish(self, machines: Iterable[str], now_s: float) -> list[Send]:
        """What to tell the machines now: nothing, mostly."""
        if not self._has_news and self.next_s is None:
            return []
        self._has_news = False
        count = len(self._loads)
        mean = self._sum / count if count else None
        is_offpeak = self._rule.is_offpeak(mean, self.is_offpeak)
        is_due = self.next_s is not None and now_s >= self.next_s
        newcomers, self._newcomers = self._newcomers, []
        if is_offpeak is not self.is_offpeak or is_due:
            self.is_offpeak = is_offpeak
            self.next_s = now_s + REPEAT_S if is_offpeak else None
        else:
            machines = [machine for machine in newcomers if machine in self._loads]
        return [Send(machine, Part.NODE, Quiet(is_offpeak)) for machine in machines]

    def _put(self, machine: str, load: float) -> None:
        self._has_news = True
        self._sum += load - self._loads.get(machine, 0.0)
        self._loads[machine] = load
        self._count_update()

    def _count_update(self) -> None:
        """Sums of differences drift; a sum anew for each round of updates costs one step each."""
        self._updates += 1
        if self._updates > len(self._loads):
            self._updates = 0
            self._sum = sum(self._loads.values())
