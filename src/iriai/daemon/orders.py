"""Orders that plug-ins bring: entry points of installed packages."""

from __future__ import annotations

from importlib.metadata import entry_points

from iriai.policy.order import OrderFactory
from iriai.policy.registry import ENTRY_POINT_GROUP


def load_orders() -> dict[str, OrderFactory]:
    """Each installed plug-in's order by name."""
    return {entry.name: entry.load() for entry in entry_points(group=ENTRY_POINT_GROUP)}
