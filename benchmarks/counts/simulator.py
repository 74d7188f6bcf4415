"""The simulator: a front end and its back ends, with every message."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from counts import scripted
from counts.counter import Counter

MACHINES, JOBS = 30, 150


def measure(_: Path) -> dict[str, dict[str, float]]:
    """Count everything that moves, for each message that a part gets."""
    scripted.settle(whole=False)
    from harness.large_world import large_world, run_to_the_end

    from iriai.broker.core import Broker
    from iriai.home.core import Home
    from iriai.node.core import Node

    handles = 0

    def counting(take: Callable[..., object]) -> Callable[..., object]:
        def count(*arguments: object) -> object:
            nonlocal handles
            handles += 1
            return take(*arguments)

        return count

    parts: tuple[Any, ...] = (Node, Home, Broker)
    for part in parts:
        part.take = counting(part.take)
    run_to_the_end(large_world(MACHINES, JOBS // 5))  # what is kept on first use
    world = large_world(MACHINES, JOBS)
    handles = 0
    counter = Counter()
    with counter.on("simulated_handle"):
        run_to_the_end(world)
    counter.tell_functions()
    counts = {name: count / handles for name, count in counter.counts.items()}
    del counts["system_calls"]
    return {"simulated_handle": counts}
