"""What a node needs of the cluster's queues: whose tasks may be frozen, and their charges."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf

from iriai.model.job import JobSpec


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

    def take(self, other: NodeQueues) -> None:
        """Be as another."""
        self.modes, self.rows_max = other.modes, other.rows_max
        self.quantum_s, self.charge_factors = other.quantum_s, other.charge_factors
        self.residences_s = other.residences_s

    def parts_of(self, spec: JobSpec) -> int:
        """Return for one part of how many a task may run, in its time slices; 1: all."""
        is_gang = self.modes.get(spec.queue) == "gang"
        takes_turns = is_gang and spec.resources.memory_bytes > 0 and not spec.exclusive
        return self.rows_max if takes_turns else 1

    def residence_s(self, queue: int) -> float:
        """Return how long a task stays in a queue before it goes on in the next one."""
        return self.residences_s.get(queue, inf)
