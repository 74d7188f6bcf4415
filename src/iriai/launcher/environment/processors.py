"""Divides this machine's processors among ranks that are bound to some of their own.

Ranks of a seat get neighbours: processors are in the order of package and core, so that a core is
divided between ranks only where a rank has less than one. Tasks that are not bound run anywhere.
"""

from __future__ import annotations

import os

from iriai.launcher.contract.machine_config import MachineSettings
from iriai.launcher.contract.messages import StartOrder
from iriai.model.ids import AttemptId
from iriai.model.job import JobSpec
from iriai.model.submission import Binding, Layout

_TOPOLOGY = "/sys/devices/system/cpu"


class Processors:
    """The processors that this launcher may use, and who is bound to which."""

    def __init__(self, topology: str = _TOPOLOGY) -> None:
        """`topology` is the directory in which the kernel describes processors."""
        available = os.sched_getaffinity(0)
        self._free = sorted(available, key=lambda each: (*_place_of(topology, each), each))
        self._order = {each: place for place, each in enumerate(self._free)}
        self._held: dict[AttemptId, tuple[int, ...]] = {}
        self._are_all_offered = True

    def use(self, settings: MachineSettings) -> None:
        """Bind by default if the machine offers all its processors: nobody else divides them."""
        self._are_all_offered = settings.cpus in (None, len(self._order))

    def take(self, order: StartOrder, spec: JobSpec) -> tuple[int, ...]:
        """Return processors for a seat until `release`, in order of rank; empty: it is not bound.

        It is not where too few are free: more cpus are offered than there are.
        """
        count = order.ranks * spec.resources.cpus
        bound = spec.bind or (Binding.CORES if self._are_all_offered else Binding.NONE)
        if bound is Binding.NONE or count > len(self._free):
            return ()
        taken, self._free = tuple(self._free[:count]), self._free[count:]
        self._held[order.attempt] = taken
        return taken

    def release(self, attempt: AttemptId) -> None:
        """Take back the processors of a seat, if it has any."""
        taken = self._held.pop(attempt, ())
        if taken:
            self._free = sorted((*self._free, *taken), key=self._order.__getitem__)


def processors_of(
    taken: tuple[int, ...], order: StartOrder, layout: Layout, rank: int
) -> tuple[int, ...]:
    """Return those of one rank among the processors of its seat; of layout FIRST, all."""
    if layout is Layout.FIRST:
        return taken
    count, place = len(taken) // order.ranks, rank - order.attempt.rank
    return taken[place * count : (place + 1) * count]


def _place_of(topology: str, processor: int) -> tuple[int, int]:
    """Return package and core of a processor; where the kernel does not tell, a core of its own."""
    found = []
    for name in ("physical_package_id", "core_id"):
        try:
            with open(f"{topology}/cpu{processor}/topology/{name}", encoding="ascii") as file:
                found.append(int(file.read()))
        except (OSError, ValueError):
            return 0, processor
    return found[0], found[1]
