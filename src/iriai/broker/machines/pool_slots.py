"""How many tasks run in pools that have a bound on it (docs/spec/014, section 5).

A task with seats on several machines of a pool counts once there. Without a bound there is nothing
of this.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from math import inf

from iriai.broker.machines.machine_view import ClaimKey, MachineView
from iriai.model.ids import AttemptId

TaskKey = Hashable
"""A match, or an attempt without the rank of a seat."""


class PoolSlots:
    """Counts the tasks of bounded pools, and closes the machines of those that are full."""

    def __init__(self, views: Mapping[str, MachineView]) -> None:
        self._views = views
        self.bounds: dict[str, int] = {}
        """How many tasks may run in each bounded pool; empty: this costs nothing."""
        self._seats: dict[str, dict[TaskKey, int]] = {}
        """By pool: the seats of each task there."""
        self._of_key: dict[ClaimKey, tuple[str, TaskKey]] = {}
        """The pool and the task of each claim."""

    def bound(self, most: Mapping[str, int]) -> None:
        """Bound these pools, and no others, from now on; claims are counted anew.

        `refresh` has to follow for all pools.
        """
        self.bounds = dict(most)
        self._seats.clear()
        self._of_key.clear()
        for view in self._views.values():
            for key in (*view.calendar, *view.calendar.ahead):
                self.began(view, key)

    def running(self, pool: str) -> int:
        """Return how many tasks run in a bounded pool, or were matched there."""
        return len(self._seats.get(pool, ()))

    def most(self, pool: str) -> int | None:
        """Return how many may; None: there is no bound."""
        return self.bounds.get(pool)

    def began(self, view: MachineView, key: ClaimKey) -> None:
        """Count a claim."""
        if view.is_away or view.pool not in self.bounds or key in self._of_key:
            return
        task: TaskKey = key
        if isinstance(key, AttemptId):
            task = key.seat(0)
        elif not isinstance(key, int):
            task = view.matched.get(key, key)
        self._of_key[key] = (view.pool, task)
        seats = self._seats.setdefault(view.pool, {})
        seats[task] = seats.get(task, 0) + 1

    def came_or_left(self, view: MachineView) -> None:
        """Count what runs on a machine as long as it can be reached.

        A machine that is gone for ever would else keep its pool full.
        """
        for key in (*view.calendar, *view.calendar.ahead):
            if view.is_away:
                self.ended(key)
            else:
                self.began(view, key)

    def pass_on(self, key: ClaimKey, to: ClaimKey) -> None:
        """Note that a claim has another key."""
        known = self._of_key.pop(key, None)
        if known is not None:
            self._of_key[to] = known

    def ended(self, key: ClaimKey) -> None:
        """Count a claim no more; ignore one that is not counted."""
        pool, task = self._of_key.pop(key, ("", None))
        seats = self._seats.get(pool, {})
        if task in seats:
            seats[task] -= 1
            if not seats[task]:
                del seats[task]

    def refresh(self, pools: Iterable[str]) -> list[MachineView]:
        """Close and open the machines of these pools; return those that changed."""
        changed = []
        for pool in dict.fromkeys(pools):
            members = [view for view in self._views.values() if view.pool == pool]
            most = self.bounds.get(pool)
            if most is None or self.running(pool) < most:
                closed_until_s = None
            elif most == 0:
                closed_until_s = inf
            else:
                ends = [view.calendar.first_claim_end_s for view in members if len(view.calendar)]
                closed_until_s = min(ends, default=inf)
            for view in members:
                is_other = (view.closed_until_s is None) is not (closed_until_s is None)
                view.closed_until_s = closed_until_s
                changed += [view] if is_other else []
        return changed

    def check(self) -> None:
        """Raise if a count differs from the claims, or a machine from its pool."""
        keys = {
            key
            for view in self._views.values()
            if view.pool in self.bounds and not view.is_away
            for key in (*view.calendar, *view.calendar.ahead)
        }
        assert keys == self._of_key.keys(), "claims of bounded pools"
        for pool, seats in self._seats.items():
            of_pool = [task for each, task in self._of_key.values() if each == pool]
            assert sum(seats.values()) == len(of_pool), f"seats in pool {pool}"
            assert seats.keys() == set(of_pool), f"tasks in pool {pool}"
        for view in self._views.values():
            most = self.bounds.get(view.pool)
            is_full = most is not None and self.running(view.pool) >= most
            assert is_full is view.is_pool_full, f"whether the pool of {view.name} is full"
