"""Orders that plug-ins bring: entry points of installed packages."""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points

from iriai.policy.orders.order import OrderFactory
from iriai.policy.orders.registry import ENTRY_POINT_GROUP


@cache
def load_orders() -> dict[str, OrderFactory]:
    """Each installed plug-in's order by name, as of the first call."""
    return {entry.name: entry.load() for entry in entry_points(group=ENTRY_POINT_GROUP)}
