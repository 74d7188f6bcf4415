"""Machines that are given nothing for a while, since what they were given came to nothing."""

from __future__ import annotations

from collections.abc import Iterator

from iriai.broker.pool.machine_view import MachineView
from iriai.broker.state.state import BrokerState


class Quarantine:
    """Each until its back-off is over. Times are those of the steady clock."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self._views: dict[str, MachineView] = {}

    def add(self, view: MachineView) -> None:
        """Its back-off has begun."""
        self._views[view.name] = view

    def forget(self, machine: str) -> None:
        """It is gone, or known anew."""
        self._views.pop(machine, None)

    def until_s(self) -> Iterator[float]:
        """When each of them is tried again."""
        for view in self._views.values():
            if view.back_off.until_s is not None:
                yield view.back_off.until_s

    def review(self, now_s: float) -> bool:
        """Those whose time is over take part again; whether there were any."""
        over = [view for view in self._views.values() if view.back_off.is_over(now_s)]
        for view in over:
            del self._views[view.name]
            self._state.availability_changed(view)
        return bool(over)
