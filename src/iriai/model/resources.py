"""Amounts of resources, and the kinds of resources that exist."""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple

import msgspec

from iriai.model.bounds import Count, Many, Name, SizeBytes
from iriai.model.units import format_size


class ResourceKind(NamedTuple):
    """A kind of resource that machines measure, tasks ask for and accounts are charged for.

    A kind without a field of `Resources` is stored there by name. A row of `KINDS` defines a kind
    completely: options, texts and charges are derived from it.
    """

    name: str
    """The name in `--NAME` and in messages."""
    unit: Literal["count", "bytes"]
    """The unit of amounts."""
    help: str
    """The help text of the option `--NAME`."""
    sensor: str
    """The function of `host.sensors` that measures what the machine has."""
    charge_weight: float = 0.0
    """The charge for a second of one unit (of bytes: of a GiB), in cpu seconds; `[order]` may
    change it for the fields of `Resources`."""
    field: str = ""
    """The field of `Resources`; empty: it is stored by name."""


CPUS = ResourceKind("cpus", "count", "Number of CPUs per task.", "cpus", 1.0, field="cpus")
MEMORY = ResourceKind(
    "memory",
    "bytes",
    "Memory per task, as 512M or 4G; a task that exceeds it is ended.",
    "memory_bytes",
    field="memory_bytes",
)
GPUS = ResourceKind(
    "gpus",
    "count",
    "Number of GPUs per task; $CUDA_VISIBLE_DEVICES names them.",
    "gpus",
    8.0,
    field="gpus",
)
DISK = ResourceKind(
    "disk",
    "bytes",
    "Disk per task, as 10G: its script and what lies in $TMPDIR; a task that exceeds it is ended.",
    "disk_bytes",
)
KINDS = (CPUS, MEMORY, GPUS, DISK)
"""All resource kinds. See docs/guide/resource-kinds.md for how to add one."""

FIELDS = tuple(kind.field for kind in KINDS if kind.field)
NAMED_KINDS = {kind.name: kind for kind in KINDS if not kind.field}
"""The resource kinds that are stored by name."""
_IN_BYTES = frozenset(kind.name for kind in KINDS if kind.unit == "bytes")
_IN_PLURAL = frozenset(kind.name for kind in KINDS if kind.name.endswith("s"))


class Resources(msgspec.Struct, frozen=True, omit_defaults=True):
    """Amounts of each resource; `named` is sorted by name and holds no zeros.

    The fields are resources that nearly every task asks for: a broker compares them a million times
    a second, so they are written out, without a loop over the table.
    """

    cpus: Count = 1
    memory_bytes: SizeBytes = 0
    gpus: Count = 0
    named: Annotated[tuple[tuple[Name, SizeBytes], ...], Many] = ()

    @property
    def disk_bytes(self) -> int:
        """The amount of disk; 0: none, as a limit no limit."""
        for name, amount in self.named:
            if name == DISK.name:
                return amount
        return 0

    def with_limits(self, memory_bytes: int, disk_bytes: int) -> Resources:
        """Return the same with these amounts of memory and disk."""
        named = tuple(each for each in self.named if each[0] != DISK.name)
        if disk_bytes:
            named = tuple(sorted((*named, (DISK.name, disk_bytes))))
        return Resources(self.cpus, memory_bytes, self.gpus, named)

    def within(self, memory_bytes: int, disk_bytes: int) -> Resources:
        """Return the same with at most these amounts of memory and disk; 0: any."""
        if not (memory_bytes or disk_bytes):
            return self
        memory, disk = self.memory_bytes, self.disk_bytes
        return self.with_limits(
            min(memory, memory_bytes) if memory and memory_bytes else memory_bytes or memory,
            min(disk, disk_bytes) if disk and disk_bytes else disk_bytes or disk,
        )

    def amounts(self) -> tuple[tuple[str, int], ...]:
        """Return (resource, amount) of all, the named ones last."""
        own = (("cpus", self.cpus), ("memory", self.memory_bytes), ("gpus", self.gpus))
        return (*own, *self.named) if self.named else own

    def part_of(self, capacity: Resources) -> float:
        """Return the largest part that they are of any resource of a machine."""
        has = dict(capacity.amounts())
        parts = (amount / has[name] for name, amount in self.amounts() if has.get(name))
        return max(parts, default=0.0)

    def plus(self, other: Resources) -> Resources:
        """Return the sum of both, resource by resource."""
        if other.named:
            return self._combined(other, 1)
        cpus, memory_bytes = self.cpus + other.cpus, self.memory_bytes + other.memory_bytes
        return Resources(cpus, memory_bytes, self.gpus + other.gpus, self.named)

    def minus(self, other: Resources) -> Resources:
        """Return `self` less the other; amounts may be negative."""
        if other.named:
            return self._combined(other, -1)
        cpus, memory_bytes = self.cpus - other.cpus, self.memory_bytes - other.memory_bytes
        return Resources(cpus, memory_bytes, self.gpus - other.gpus, self.named)

    def with_cpus(self, cpus: int) -> Resources:
        """Return the same with so many cpus."""
        if cpus == self.cpus:
            return self
        return Resources(cpus, self.memory_bytes, self.gpus, self.named)

    def times(self, count: int) -> Resources:
        """Return `count` times as much of everything."""
        if count == 1:
            return self
        named = tuple((name, count * amount) for name, amount in self.named)
        return Resources(count * self.cpus, count * self.memory_bytes, count * self.gpus, named)

    def shared(self, count: int) -> Resources:
        """Return the part of each of `count`, rounded down."""
        if count == 1:
            return self
        named = tuple((name, amount // count) for name, amount in self.named)
        return Resources(
            self.cpus // count,
            self.memory_bytes // count,
            self.gpus // count,
            tuple(each for each in named if each[1]),
        )

    def _combined(self, other: Resources, sign: int) -> Resources:
        amounts = dict(self.named)
        for name, amount in other.named:
            amounts[name] = amounts.get(name, 0) + sign * amount
        named = tuple(sorted((n, a) for n, a in amounts.items() if a))
        return Resources(
            self.cpus + sign * other.cpus,
            self.memory_bytes + sign * other.memory_bytes,
            self.gpus + sign * other.gpus,
            named,
        )

    def fits_in(self, room: Resources) -> bool:
        """Return whether `room` has at least as much of everything."""
        if self.cpus > room.cpus or self.memory_bytes > room.memory_bytes or self.gpus > room.gpus:
            return False
        if not self.named:
            return True
        have = dict(room.named)
        return all(have.get(name, 0) >= amount for name, amount in self.named)

    def lacking_in(self, room: Resources) -> tuple[tuple[str, int, int], ...]:
        """Return the resources of which `room` has too little: (resource, needed, there)."""
        have = dict(room.amounts())
        pairs = ((name, amount, have.get(name, 0)) for name, amount in self.amounts())
        return tuple(pair for pair in pairs if pair[1] > pair[2])


NOTHING = Resources(cpus=0)
"""Empty resources; the neutral element of `plus`."""


def describe_amount(resource: str, amount: int) -> str:
    """Return `amount` of `resource` for people: `4 cpus`, `2G memory`."""
    is_one = amount == 1 and resource in _IN_PLURAL
    return f"{amount_words(resource, amount)} {resource[:-1] if is_one else resource}"


def amount_words(resource: str, amount: int) -> str:
    """Return `amount` in the unit of `resource`: `4`, `2G`."""
    return format_size(max(amount, 0)) if resource in _IN_BYTES else str(amount)
