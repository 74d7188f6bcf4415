"""The checker of bounded pools: how many tasks run there (docs/spec/014, section 5)."""

from __future__ import annotations

from iriai.broker.core import Broker
from iriai.broker.machines.machine_view import MachineView
from iriai.model.ids import AttemptId
from iriai.sim.world.machine_model import SimulatedMachine


class PoolChecker:
    """Checks the broker of each machine after its turns."""

    def __init__(self) -> None:
        self._pending: dict[str, tuple[Broker, set[int]]] = {}
        """By machine: its broker, and the matches that were pending after its last turn."""

    def check(self, machine: SimulatedMachine) -> None:
        """Check that no task was matched in a pool that runs as many as it may.

        A new broker may learn of more than there may be, from machines that report one by one, or
        come back.
        """
        broker, name = machine.core.own_broker, machine.plan.name
        bounded = machine.plan.configuration.bounded_pools
        if broker is None or not bounded:
            return
        views = list(broker.state.machines.values())
        pending = {id(each) for view in views for each in view.matched.values()}
        known, before = self._pending.get(name, (None, set()))
        self._pending[name] = (broker, pending)
        if known is not broker:
            return
        for pool, most in bounded.items():
            of_pool = [view for view in views if view.pool == pool and not view.is_away]
            new = {id(each) for view in of_pool for each in view.matched.values()} - before
            running = len(_tasks(of_pool))
            assert not new or running <= most, (
                f"{len(new)} tasks were matched in pool {pool}, where {running} of {most} run"
            )


def _tasks(views: list[MachineView]) -> set[object]:
    """Return the tasks with seats on these machines, found anew from their claims."""
    pending = {key for view in views for key in view.matched}
    found: set[object] = set()
    for view in views:
        for key in (*view.calendar, *view.calendar.ahead):
            if isinstance(key, AttemptId):
                found.add(key.seat(0))
                continue
            matched = None if isinstance(key, int) else view.matched.get(key)
            seats = [] if matched is None else matched.seats
            if all(seat.capability in pending for seat in seats):  # else some are claims already
                found.add(id(matched))
    return found
