"""Amounts of what a machine has and a task asks for."""

from __future__ import annotations

from typing import Annotated

import msgspec

from iriai.model.bounds import Count, Many, Name, SizeBytes
from iriai.model.units import format_size


class Resources(msgspec.Struct, frozen=True, omit_defaults=True):
    """Amounts of each resource; `named` is sorted by name and holds no zeros."""

    cpus: Count = 1
    memory_bytes: SizeBytes = 0
    gpus: Count = 0
    disk_bytes: SizeBytes = 0
    named: Annotated[tuple[tuple[Name, SizeBytes], ...], Many] = ()

    def amounts(self) -> tuple[tuple[str, int], ...]:
        """(resource, amount) of all, the named ones last."""
        own = (("cpus", self.cpus), ("memory", self.memory_bytes), ("gpus", self.gpus))
        return (*own, ("disk", self.disk_bytes), *self.named)

    def plus(self, other: Resources) -> Resources:
        """The sum of both, resource by resource."""
        return self._combined(other, 1)

    def minus(self, other: Resources) -> Resources:
        """What is left of `self`; amounts may be negative."""
        return self._combined(other, -1)

    def _combined(self, other: Resources, sign: int) -> Resources:
        named = self.named
        if other.named:
            amounts = dict(self.named)
            for name, amount in other.named:
                amounts[name] = amounts.get(name, 0) + sign * amount
            named = tuple(sorted((n, a) for n, a in amounts.items() if a))
        return Resources(
            self.cpus + sign * other.cpus,
            self.memory_bytes + sign * other.memory_bytes,
            self.gpus + sign * other.gpus,
            self.disk_bytes + sign * other.disk_bytes,
            named,
        )

    def fits_in(self, room: Resources) -> bool:
        """Whether `room` has at least as much of everything."""
        if (
            self.cpus > room.cpus
            or self.memory_bytes > room.memory_bytes
            or self.gpus > room.gpus
            or self.disk_bytes > room.disk_bytes
        ):
            return False
        if not self.named:
            return True
        have = dict(room.named)
        return all(have.get(name, 0) >= amount for name, amount in self.named)

    def lacking_in(self, room: Resources) -> tuple[tuple[str, int, int], ...]:
        """What `room` has too little of: (resource, needed, there), for explanations."""
        have = dict(room.amounts())
        pairs = ((name, amount, have.get(name, 0)) for name, amount in self.amounts())
        return tuple(pair for pair in pairs if pair[1] > pair[2])


NOTHING = Resources(cpus=0)
"""No resources at all; the neutral element of `plus`."""


def describe_amount(resource: str, amount: int) -> str:
    """`amount` of `resource` for people: `4 cpus`, `2G memory`."""
    if resource in ("memory", "disk"):
        return f"{format_size(max(amount, 0))} {resource}"
    is_one = amount == 1 and resource in ("cpus", "gpus")
    return f"{amount} {resource[:-1] if is_one else resource}"
