"""Off-peak as this broker publishes it: by the loads that machines report (paper 000, section 5.4).

One step for each report that brings a load; the machines are told on change, and again and again
while it is off-peak, since old news count as peak.
"""

from __future__ import annotations

from collections.abc import Iterable

from iriai.policy.accounting.offpeak import MachineLoad, OffpeakRule
from iriai.protocol.messages.effects import Part, Send
from iriai.protocol.messages.scheduling import Idle, Quiet

REPEAT_S = 30.0
"""Half of the time for which nodes believe it: one message may be lost."""


class OffpeakPublisher:
    """What the machines say of their loads, and what they were told last."""

    def __init__(self, rule: OffpeakRule) -> None:
        self._rule = rule
        self._loads: dict[str, float] = {}
        """What the rule makes of each machine's load."""
        self._sum = 0.0
        self._updates = 0
        self._is_offpeak = False
        self._next_s: float | None = None
        self._has_news = False
        """Whether a load was reported, or is not known any more, since it was last published."""
        self._newcomers: list[str] = []
        """Came while it was off-peak, and were not told."""

    @property
    def is_offpeak(self) -> bool:
        """What was published last."""
        return self._is_offpeak

    @property
    def next_s(self) -> float | None:
        """When it must be said again; None: not without news."""
        return self._next_s

    def measured(self, idle: Idle) -> None:
        """A report; one without a load says nothing."""
        if idle.is_load_known:
            load = MachineLoad(idle.load, max(1, idle.capacity.cpus))
            if self._is_offpeak and idle.machine not in self._loads:
                self._newcomers.append(idle.machine)
            self._put(idle.machine, self._rule.measure(load))

    def away(self, machine: str) -> None:
        """Its load is not known any more."""
        if machine in self._loads:
            self._sum -= self._loads.pop(machine)
            self._has_news = True
            self._count_update()

    def publish(self, machines: Iterable[str], now_s: float) -> list[Send]:
        """What to tell the machines now: nothing, mostly."""
        if not self._has_news and self._next_s is None:
            return []
        self._has_news = False
        count = len(self._loads)
        mean = self._sum / count if count else None
        is_offpeak = self._rule.is_offpeak(mean, self._is_offpeak)
        is_due = self._next_s is not None and now_s >= self._next_s
        newcomers, self._newcomers = self._newcomers, []
        if is_offpeak is self._is_offpeak and not is_due:
            machines = [machine for machine in newcomers if machine in self._loads]
            return [Send(machine, Part.NODE, Quiet(is_offpeak)) for machine in machines]
        self._is_offpeak = is_offpeak
        self._next_s = now_s + REPEAT_S if is_offpeak else None
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
