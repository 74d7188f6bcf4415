"""Passes changes of queues on to the parts of a machine, while they work."""

from __future__ import annotations

from iriai.broker.core import Broker
from iriai.config.reader import Configuration
from iriai.home.core import Home
from iriai.machine.node_queues import node_queues
from iriai.machine.policy_section import policy_terms
from iriai.node.core import Node


def configure_parts(
    configuration: Configuration, node: Node | None, home: Home | None, broker: Broker | None
) -> None:
    """Have the parts that there are go by other queues than before."""
    if node is not None:
        node.configured(node_queues(configuration, node.settings.ad))
    if home is not None:
        home.policy_terms = policy_terms(configuration)
    if broker is not None:
        broker.configured(configuration)
