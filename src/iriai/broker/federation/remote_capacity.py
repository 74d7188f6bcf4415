"""How many tasks another cluster has room for, by its summary less what was passed on since."""

from __future__ import annotations

from iriai.model.resources import Resources
from iriai.protocol.messages.scheduling import Vacancy


class RemoteCapacity:
    """One broker's copy of a vacancy. It is coarse, and may be out of date."""

    __slots__ = ("_each", "_left", "_machines")

    def __init__(self, vacancy: Vacancy) -> None:
        self._machines = max(1, vacancy.machines)
        self._each = {name: there // self._machines for name, there in vacancy.free.amounts()}
        self._left = dict(vacancy.free.amounts())

    def fits(self, need: Resources) -> int:
        """How many tasks of that need may find a place."""
        each = left = None
        for name, amount in need.amounts():
            if amount <= 0:
                continue
            on_one, on_all = self._each.get(name, 0) // amount, self._left.get(name, 0) // amount
            each = on_one if each is None else min(each, on_one)
            left = on_all if left is None else min(left, on_all)
        return 0 if each is None or left is None else min(each * self._machines, left)

    @property
    def is_empty(self) -> bool:
        """Whether no task will find a place any more: each takes a cpu at least."""
        return self._left.get("cpus", 0) < 1

    def take(self, need: Resources, count: int) -> None:
        """So many were passed on."""
        for name, amount in need.amounts():
            if amount:
                self._left[name] = self._left.get(name, 0) - amount * count
