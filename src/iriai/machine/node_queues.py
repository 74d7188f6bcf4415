"""The queues and the pool of a configuration, as a node needs them."""

from __future__ import annotations

from iriai.broker.machines.pools import pool_of
from iriai.config.reader import Configuration
from iriai.model.ad import MachineAd
from iriai.node.queues import NodeQueues


def node_queues(configuration: Configuration, ad: MachineAd | None = None) -> NodeQueues:
    """Return what a node needs of the queues, and of the pool that its `ad` names."""
    pool = configuration.pool("" if ad is None else pool_of(ad))
    last = configuration.queue_count - 1
    residences_s = {
        int(number): queue.residence_s
        for number, queue in configuration.queues.items()
        if queue.residence_s is not None and int(number) < last
    }
    return NodeQueues(
        configuration.queue_modes,
        configuration.gang.rows_max,
        configuration.gang.quantum_s,
        configuration.charge_factors,
        residences_s,
        configuration.turning_queues,
        pool.memory_bytes,
        pool.disk_bytes,
    )
