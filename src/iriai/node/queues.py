"""What a node needs of the cluster's queues and of its pool: it may change while the node runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf

from iriai.model.job import JobSpec
from iriai.model.resources import Resources


@dataclass(slots=True)
class NodeQueues:
    """The queues in force, which may change while the node runs; by number."""

    modes: Mapping[int, str] = field(default_factory=dict)
    """Of the queues whose tasks may be frozen: `gang` or `exclusive`."""
    rows_max: int = 1
    """The most tasks that take turns on one machine."""
    quantum_s: float = 1.0
    """The length of a time slice."""
    charge_factors: Mapping[int, float] = field(default_factory=dict)
    """Where they are not 1."""
    residences_s: Mapping[int, float] = field(default_factory=dict)
    """Of the queues whose tasks go on in the next one after that time."""

    turning: frozenset[int] = frozenset()
    """The queues whose tasks may take turns, there or in one that they go on in."""
    memory_max_bytes: int | None = None
    """What jobs may have of each machine of the pool; None: all that it gives away."""
    disk_max_bytes: int | None = None
    """The same of disk."""

    def take(self, other: NodeQueues) -> None:
        """Be as another."""
        self.modes, self.rows_max = other.modes, other.rows_max
        self.quantum_s, self.charge_factors = other.quantum_s, other.charge_factors
        self.residences_s, self.turning = other.residences_s, other.turning
        self.memory_max_bytes = other.memory_max_bytes
        self.disk_max_bytes = other.disk_max_bytes

    def given(self, capacity: Resources) -> Resources:
        """Return what jobs may have of a machine of that capacity."""
        memory_max, disk_max = self.memory_max_bytes, self.disk_max_bytes
        if memory_max is None and disk_max is None:
            return capacity
        memory_bytes, disk_bytes = capacity.memory_bytes, capacity.disk_bytes
        return capacity.with_limits(
            memory_bytes if memory_max is None else min(memory_bytes, memory_max),
            disk_bytes if disk_max is None else min(disk_bytes, disk_max),
        )

    def parts_of(self, spec: JobSpec) -> int:
        """Return for one part of how many a task may run, in its time slices; 1: all."""
        may_turn = spec.queue in self.turning
        takes_turns = may_turn and spec.resources.memory_bytes > 0 and not spec.exclusive
        return self.rows_max if takes_turns else 1

    def residence_s(self, queue: int) -> float:
        """Return how long a task stays in a queue before it goes on in the next one."""
        return self.residences_s.get(queue, inf)
