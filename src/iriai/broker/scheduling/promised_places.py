"""The places that a policy has promised to jobs that wait, and what fits beside them."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import TYPE_CHECKING

from iriai.broker.machines.beside_bookings import held_s
from iriai.broker.machines.machine_view import MachineView
from iriai.broker.queue.entries import TaskClassKey
from iriai.broker.state.reserved_heads import kept_for
from iriai.broker.state.state import BrokerState
from iriai.model.ids import JobId
from iriai.model.resources import Resources
from iriai.policy.placement.calendar import OPEN_END_S
from iriai.policy.placement.policy_api import PlannedStart, WaitingJob
from iriai.policy.placement.seats import Seat

if TYPE_CHECKING:
    from iriai.policy.placement.bookings import HeldSpan, RoomProfile


class PromisedPlaces:
    """The promises of a policy, as far as they name machines."""

    def __init__(self, state: BrokerState, by_job: dict[JobId, PlannedStart]) -> None:
        self._state = state
        self.by_job = by_job
        """All promises; changed by the driver alone."""
        self.inherited: dict[JobId, None] = {}
        """Those of the built-in order, until the policy renews them. They are in no way of what it
        decides: the policy gave none of them, and may not know that they are there."""

    def of(self, view: MachineView, now_s: float) -> Iterator[tuple[JobId, HeldSpan]]:
        """Yield what was promised of a machine to jobs that wait, with its times from now on."""
        from iriai.policy.placement.bookings import HeldSpan

        for promise in self.by_job.values():
            entry = self._state.queues.entries.get(promise.job)
            if entry is None or promise.start_s is None:
                continue
            seats = promise.seats or (Seat(promise.machine, 1),)
            ranks = sum(ranks for machine, ranks in seats if machine == view.name)
            if ranks and (promise.seats or not entry.kind.is_wide):
                start_s = max(now_s, promise.start_s)
                end_s = start_s + length_beside(entry.kind.planned_s)
                yield promise.job, HeldSpan(start_s, end_s, kept_for(entry.kind, view, ranks))

    def before(
        self, view: MachineView, job: JobId, now_s: float, until_s: float
    ) -> list[tuple[JobId, HeldSpan]]:
        """Return what was promised of a machine to other jobs than `job`, from before `until_s`.

        Where promises are overdue, what was promised for later is in nobody's way: else each of two
        might wait for the other.
        """
        overdue = self.by_job.get(job)
        due_s = inf if overdue is None or overdue.start_s is None else overdue.start_s
        return [
            (other, held)
            for other, held in self.of(view, now_s)
            if other != job
            and other not in self.inherited
            and held.from_s < until_s
            and (due_s > now_s or ((self.by_job[other].start_s or 0.0), other) < (due_s, job))
        ]

    def profile(self, view: MachineView, job: JobId, now_s: float) -> RoomProfile:
        """Return what is free there beside tasks, bookings and the promises of other jobs."""
        return view.calendar.profile([held for _, held in self.before(view, job, now_s, inf)])

    def fit(self, view: MachineView, job: WaitingJob, ranks: int, now_s: float) -> int:
        """Return how many of so many ranks of a task may start there now, and delay no promise."""
        entry = self._state.queues.entries.get(job.id)
        if entry is None or not self.by_job or not ranks:
            return ranks
        others = self.before(view, job.id, now_s, inf)
        profile = view.calendar.profile([held for _, held in others]) if others else None
        while ranks and profile is not None:
            needed = kept_for(entry.kind, view, ranks)
            until_s = now_s + stay_beside(view, entry.kind.key, needed, now_s)
            if all(held.from_s >= until_s for _, held in others):
                break
            if profile.is_room(needed, now_s, until_s):
                break
            ranks -= 1
        return ranks

    def earliest_s(self, view: MachineView, job: WaitingJob, now_s: float) -> float | None:
        """Return when a rank of a task may start there first; None: it rests on no known end."""
        needed = view.calendar.capacity if job.is_exclusive else job.resources
        length_s = length_beside(job.needed_s)
        run = self.profile(view, job.id, now_s).run_from(needed, length_s, now_s)
        return None if run is None or run[0] > now_s + OPEN_END_S / 2 else run[0]


def length_beside(planned_s: float | None) -> float:
    """Return for how long a place is needed where no task outlasts a year."""
    return OPEN_END_S if planned_s is None else planned_s


def stay_beside(view: MachineView, key: TaskClassKey, needed: Resources, now_s: float) -> float:
    """Return how long a task that starts now keeps its place at most."""
    if view.calendar.bookings:
        return length_beside(held_s(view.calendar, key, needed, now_s))
    return length_beside(key.stay_s)
