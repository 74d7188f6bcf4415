"""The broker alone: a pass, and a burst."""

from __future__ import annotations

from pathlib import Path

from counts import scripted
from counts.counter import Counter

MACHINES, QUEUED = 200, 4_000
WARM_UP_ENDS, ENDS = 200, 200
SEED = 1


def measure(_: Path) -> dict[str, dict[str, float]]:
    """Count a pass after an end, and a start of a burst."""
    scripted.settle(whole=False)
    return {"broker_pass": _pass(), "broker_burst_start": _burst()}


def _pass() -> dict[str, float]:
    """A task's end at a busy installation, until the broker has said what starts."""
    from depth import GAP_S, Installation

    counter = Counter()
    installation = Installation(MACHINES, QUEUED, SEED)
    for number in range(WARM_UP_ENDS + ENDS):
        installation.now_s += GAP_S
        counted, idle = installation.an_end()
        now, broker = installation.now, installation.broker
        if number < WARM_UP_ENDS:
            broker.take(counted, now)
            broker.take(idle, now)
            effects = installation.turns()
        else:
            with counter.on("broker_pass"):
                broker.take(counted, now)
                broker.take(idle, now)
                effects = installation.turns()
        installation.settle_down(effects)
    return _each(counter, ENDS)


def _burst() -> dict[str, float]:
    """All machines come at once to a full queue: what a start costs."""
    from depth import Installation

    from iriai.protocol.messages.effects import Send
    from iriai.protocol.messages.scheduling import Match

    counter = Counter()
    installation = Installation(MACHINES, QUEUED, SEED, is_busy=False)
    broker, now = installation.broker, installation.now
    reports = [node.idle(node.capacity.cpus, whole=True) for node in installation.nodes]
    with counter.on("broker_burst_start"):
        for report in reports:
            broker.take(report, now)
        effects = installation.turns()
    starts = sum(1 for e in effects if isinstance(e, Send) and isinstance(e.message, Match))
    return _each(counter, starts)


def _each(counter: Counter, units: int) -> dict[str, float]:
    counter.tell_functions()
    return {name: count / units for name, count in counter.counts.items() if name != "system_calls"}
