"""Checks what nodes report of themselves against bounds for machines of their size.

A broker draws with what others count, so what no honest machine can have counted, or can be, is
refused, and named (docs/spec/006, section 6). The own machine is believed.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite

from iriai.broker.pool.machine_view import MachineView
from iriai.model.instant import Instant
from iriai.model.records import LedgerRow
from iriai.policy.accounting.decay import ChargeRule, Decay
from iriai.policy.accounting.offpeak import OffpeakRule
from iriai.protocol.effect_buffer import Incidents
from iriai.protocol.ledger.ledger import BatchRow, malformed_row
from iriai.protocol.ledger.use_bounds import UseBounds, rate_of
from iriai.protocol.messages.effects import Part, PeerNoticed, Send
from iriai.protocol.messages.scheduling import Counted, Idle, Quiet

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


CPUS_MAX = 8_192
"""The cpus of one machine: four times as many as the largest has today."""
GPUS_MAX = 1_024
MEMORY_BYTES_MAX = 1 << 50
"""A pebibyte."""
SPEED_MAX = 100.0
"""The speed of a machine, as `[machine] speed` has it."""


class ClaimedUse:
    """Checks reports of nodes against bounds for machines of their size."""

    def __init__(self, own: str, fading: Decay, rule: ChargeRule) -> None:
        """`own` is the broker's machine."""
        self._own = own
        self._rule = rule
        self._bounds = UseBounds(fading)
        self._rates: dict[str, float] = {}
        self._incidents = Incidents()

    def measured(self, view: MachineView) -> None:
        """A machine said how large it is."""
        self._rates[view.name] = rate_of(self._rule, view.calendar.capacity, view.speed, view.ad)

    def learned(self, machine: str, rows: Iterable[LedgerRow], now: Instant) -> None:
        """The directory has these, and they were looked at when they came."""
        self._bounds.know(machine, rows, now)

    def refuses_report(self, idle: Idle) -> bool:
        """Return whether no machine is as it says."""
        if idle.machine == self._own:
            return False
        words = _impossible(idle)
        if words:
            self._incidents.note("size-beyond-bounds", idle.machine, words)
        return bool(words)

    def refuses(self, counted: Counted, now: Instant) -> bool:
        """Whether what it counted is not to be believed; nothing is noted where it never reported.

        Such a machine is asked to say all again.
        """
        machine = counted.machine
        if machine == self._own:
            return False
        rate = self._rates.get(machine)
        if rate is None:
            return True
        wall_s = now.wall_s
        found = (malformed_row(BatchRow.of(row), wall_s) for row in counted.rows)
        words = next(filter(None, found), "")
        words = words or self._bounds.excess(machine, counted.rows, rate, now)
        if words:
            self._incidents.note("use-beyond-size", machine, words)
        return bool(words)

    def forget(self, machine: str) -> None:
        """Nothing that it counted counts any more."""
        self._bounds.forget(machine)

    def drain_incidents(self) -> list[PeerNoticed]:
        """Return the incidents since the last call, and forget them."""
        return self._incidents.drain()


def _impossible(idle: Idle) -> str:
    capacity = idle.capacity
    for what, amount, most in (
        ("cpus", capacity.cpus, CPUS_MAX),
        ("GPUs", capacity.gpus, GPUS_MAX),
        ("bytes of memory", capacity.memory_bytes, MEMORY_BYTES_MAX),
        ("times the usual speed", idle.speed, SPEED_MAX),
    ):
        if not 0 <= amount <= most:
            return f"it reports {amount} {what}; the limit is {most}"
    if not (isfinite(idle.load) and isfinite(idle.foreign_load)):
        return f"a load of {idle.load}, of which {idle.foreign_load} is foreign"
    for running in (*idle.began, *idle.waiting):
        if not 0 <= running.resources.cpus <= CPUS_MAX or not running.charge_so_far_s >= 0.0:
            return (
                f"{running.attempt} with {running.resources.cpus} cpus, which was charged "
                f"{running.charge_so_far_s} s"
            )
    return ""
