"""Pools: machines of a cluster that are alike (docs/spec/011, section 3)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from iriai.broker.machines.machine_view import MachineView
from iriai.config.values import is_name
from iriai.model.ad import POOL, MachineAd, attributes_of


class PoolLoad(NamedTuple):
    """How much a pool has to do, and how fast it is."""

    load: float
    speed: float
    """In cpus of a machine of speed 1."""

    @classmethod
    def of(cls, views: Iterable[MachineView]) -> PoolLoad:
        """Return that of the machines which take tasks.

        What is claimed counts at once, since a load average follows only within a minute.
        """
        load = speed = 0.0
        for view in views:
            if view.is_available:
                capacity = view.calendar.capacity.cpus
                claimed = capacity - view.calendar.free.cpus
                load += max(view.load, view.foreign_load + claimed)
                speed += capacity * view.speed
        return cls(load, speed)

    @property
    def order(self) -> tuple[float, float]:
        """Return which pool comes first: the lower load relative to speed, then the faster."""
        return (self.load / self.speed if self.speed else 0.0, -self.speed)


def pool_of(ad: MachineAd) -> str:
    """Return the name of a machine's pool; empty where its ad has none that may be one."""
    name = attributes_of(ad).get(POOL)
    return name if isinstance(name, str) and is_name(name) else ""
