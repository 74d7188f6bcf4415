"""How long it takes to reserve through a client, durable on every node, with real daemons."""

from __future__ import annotations

import time

from harness.live_network import live_network
from harness.private_iriai import PrivateIriai
from harness.report import percentile
from iriai.client import Client
from iriai.wire.reservations import EndReservation, Reserve, Reserved

AHEAD_S, LENGTH_S = 86_400.0, 3_600.0
SECTIONS = "[reservations]\nshare_limit = false\ncount_max = 1000000\n"
WARM_UP = 3
SETTLE_S = 6.0
"""A broker that is new waits so long before it refuses anything: not all may be known to it."""


def reserve_p50_ms(client: Client, nodes: int, count: int) -> float:
    """Reserve whole nodes for so many hours that lie ahead, and give each back.

    Each for another hour: a broker hears from the nodes that the last one is free again.
    """
    took_ms, first_s = [], time.time() + AHEAD_S
    for number in range(WARM_UP + count):
        start_s = first_s + number * 2 * LENGTH_S
        began = time.perf_counter()
        reserved = client.ask(Reserve(start_s, start_s + LENGTH_S, nodes))
        elapsed_ms = 1000 * (time.perf_counter() - began)
        assert isinstance(reserved, Reserved)
        assert len(reserved.nodes) == nodes
        client.ask(EndReservation(reserved.id))
        if number >= WARM_UP:
            took_ms.append(elapsed_ms)
    return percentile(took_ms, 50)


def on_one_machine(count: int) -> float:
    """Return the median on one machine that is home, broker and node."""
    with PrivateIriai(cpus=2, sections=SECTIONS) as iriai:
        time.sleep(SETTLE_S)
        return iriai.as_user(lambda client: reserve_p50_ms(client, 1, count))


def on_machines(machines: int, count: int) -> float:
    """Return the median of all of so many machines in network namespaces. Needs root."""
    with live_network(machines, all_accept=True, more=SECTIONS) as (network, _):
        time.sleep(SETTLE_S)
        with network.machines["m0"].client() as client:
            return reserve_p50_ms(client, machines, count)
