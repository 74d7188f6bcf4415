"""What a node needs of the cluster's queues: which may be frozen, what their tasks are charged."""

from __future__ import annotations

from math import inf

from iriai.config.reader import Configuration
from iriai.model.job import JobSpec


class NodeQueues:
    """The queues in force; `configured` replaces them."""

    def __init__(self, configuration: Configuration) -> None:
        self.configured(configuration)

    def configured(self, configuration: Configuration) -> None:
        """Take a configuration with other queues than before."""
        self.modes = configuration.queue_modes
        self.rows_max = configuration.gang.rows_max
        self.quantum_s = configuration.gang.quantum_s
        self.last = configuration.queue_count - 1
        """The number of the lowest queue."""
        named = {int(number): queue for number, queue in configuration.queues.items()}
        self.charge_factors = configuration.charge_factors
        self._residences = {n: queue.residence_s for n, queue in named.items()}
        self.has_residences = any(each is not None for each in self._residences.values())
        """Whether tasks of some queue go on in a lower one."""

    def parts_of(self, spec: JobSpec) -> int:
        """Return for one part of how many a task may run, in its time slices; 1: all."""
        is_gang = self.modes.get(spec.queue) == "gang"
        takes_turns = is_gang and spec.resources.memory_bytes > 0 and not spec.exclusive
        return self.rows_max if takes_turns else 1

    def residence_s(self, queue: int) -> float:
        """Return how long a task runs in a queue before it goes on in the next one."""
        residence_s = self._residences.get(queue)
        return inf if residence_s is None or queue >= self.last else residence_s
