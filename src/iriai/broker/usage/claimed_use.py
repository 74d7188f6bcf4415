"""Checks what nodes report of themselves against bounds for machines of their size.

A broker draws with what others count, so what no honest machine can have counted, or can be, is
refused, and named (docs/spec/006, section 6). The own machine is believed.
"""

from __future__ import annotations

from math import isfinite

from iriai.broker.pool.machine_view import MachineView
from iriai.model.instant import Instant
from iriai.policy.accounting.decay import ChargeRule, Decay
from iriai.protocol.ledger.ledger import BatchRow, malformed_row
from iriai.protocol.ledger.use_bounds import UseBounds, rate_of
from iriai.protocol.messages.scheduling import Counted, Idle
from iriai.protocol.misbehaviour import Incidents

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
        self.bounds = UseBounds(fading)
        """What machines of their size may have counted."""
        self._rates: dict[str, float] = {}
        self.incidents = Incidents()
        """Of machines whose reports were refused."""

    def measured(self, view: MachineView) -> None:
        """A machine said how large it is."""
        self._rates[view.name] = rate_of(self._rule, view.calendar.capacity, view.speed, view.ad)

    def refuses_report(self, idle: Idle) -> bool:
        """Return whether no machine is as it says."""
        if idle.machine == self._own:
            return False
        words = _impossible(idle)
        if words:
            self.incidents.note("size-beyond-bounds", idle.machine, words)
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
        words = words or self.bounds.excess(machine, counted.rows, rate, now)
        if words:
            self.incidents.note("use-beyond-size", machine, words)
        return bool(words)


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
