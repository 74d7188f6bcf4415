"""Conservative backfill: every waiting job has a planned start that no later job delays.

After Mu'alem and Feitelson, "Utilization, predictability, workloads, and user runtime estimates in
scheduling the IBM SP2 with backfilling", IEEE TPDS 12 (2001), section 2.2. A job gets the earliest
place that leaves all others theirs, in the order of the queue. When something ends early, each
moves up in turn as far as it can, while the others keep their places: a promise is only improved.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from operator import attrgetter
from typing import NamedTuple

from iriai.model.ids import JobId
from iriai.model.instant import Instant
from iriai.model.resources import Resources
from iriai.policy.placement.calendar import OPEN_END_S
from iriai.policy.placement.plan_profiles import PlanProfiles, is_pool, machine_of, pool_of
from iriai.policy.placement.policy_api import (
    Decision,
    PlannedMachine,
    PlannedStart,
    Start,
    View,
    WaitingJob,
)
from iriai.policy.placement.seats import Seats

PLACES_MAX = 1000
"""Jobs with a place. Each end looks at all of them, and each look at all that run and all places;
the time of a pass grows with the square. Who stands behind that many waits for one to be free."""
PROMISE_STEP_S = 1.0
"""A promise is told again when it improves by at least this much; less is noise to a person."""


class _Place(NamedTuple):
    job: WaitingJob
    seats: Seats
    """Of a profile each, which is a machine's or a pool's."""
    start_s: float
    told_s: float | None


class Conservative:
    """Keeps the places; made once for a broker."""

    def __init__(self) -> None:
        self.wake_s: float | None = None
        """The next place begins then, whether anything else happens or not."""
        self._places: dict[JobId, _Place] = {}
        """In the order in which they were given."""
        self._ended: dict[str, int] = {}
        """What each machine had counted when places were last moved up."""
        self._capacities: dict[str, Resources] = {}
        """What each machine has."""

    def plan(self, view: View, now: Instant) -> Iterator[Decision]:
        """Move up, give places to what is new, start what begins now."""
        now_s = now.steady_s
        queue = list(islice(view.queue(), PLACES_MAX))
        machines = {machine.name: machine for machine in view.machines}
        self._forget({job.id: job for job in queue})
        profiles = PlanProfiles(machines, queue, now_s)
        self._reserve(profiles, self._has_less(machines), now_s)
        if self._has_ended(machines):
            for place in list(self._places.values()):
                self._move_up(place, profiles, now_s)
        for job in queue:
            if job.id not in self._places:
                self._give_place(job, job.promised_start_s, profiles)
        yield from self._due(profiles, now_s)
        yield from self._news(machines, now_s)
        starts_s = [place.start_s for place in self._places.values()]
        self.wake_s = min((start_s for start_s in starts_s if start_s > now_s), default=None)

    def bound(
        self, machines: Mapping[str, PlannedMachine], now_s: float
    ) -> Iterator[tuple[WaitingJob, Seats, float]]:
        """Yield each job with a place, where it is to start, and when.

        What is planned for a pool is bound to machines here.
        """
        profiles = PlanProfiles(machines, (), now_s)
        for place in sorted(self._places.values(), key=attrgetter("start_s")):
            job, seats, start_s = place.job, place.seats, max(now_s, place.start_s)
            if is_pool(seats[0].machine):
                seats = profiles.at(job, start_s)
            if seats and profiles.has(seats, job, has_less=False):
                profiles.reserve(seats, job, start_s)
                yield job, seats, start_s

    def _forget(self, waiting: dict[JobId, WaitingJob]) -> None:
        """Drop what waits no more, or changed."""
        for id_, (known, *_) in list(self._places.items()):
            job = waiting.get(id_)
            if job is None or (
                (job.resources, job.stay_s, job.shape)
                != (known.resources, known.stay_s, known.shape)
            ):
                del self._places[id_]

    def _has_less(self, machines: dict[str, PlannedMachine]) -> bool:
        """Return whether a machine is gone, or has less, since the last call."""
        before = self._capacities
        now = self._capacities = {name: each.capacity for name, each in machines.items()}
        return any(
            name not in now or not capacity.fits_in(now[name]) for name, capacity in before.items()
        )

    def _reserve(self, profiles: PlanProfiles, has_less: bool, now_s: float) -> None:
        """Enter the places; what has none any more gets another for the same time if it can.

        Where plans are of machines that were of pools, all can, in the order of their starts:
        nothing that begins later is in the way of what begins at a moment.
        """
        seatless = []
        for place in self._places.values():
            is_kept = profiles.has(place.seats, place.job, has_less=has_less)
            start_s = max(now_s, place.start_s)
            if is_kept and profiles.has_bookings:
                is_kept = not profiles.is_booked(place.seats, place.job, start_s)
            if not is_kept or (has_less and is_pool(place.seats[0].machine)):
                seatless.append(place)
            else:
                profiles.reserve(place.seats, place.job, start_s)
        for place in sorted(seatless, key=attrgetter("start_s")):
            job, start_s = place.job, max(now_s, place.start_s)
            seats = profiles.at(job, start_s)
            if seats:
                profiles.reserve(seats, job, start_s)
                self._places[job.id] = place._replace(seats=seats)
            else:
                del self._places[job.id]

    def _has_ended(self, machines: dict[str, PlannedMachine]) -> bool:
        ended = {name: machine.ended for name, machine in machines.items()}
        if ended == self._ended:
            return False
        self._ended = ended
        return True

    def _move_up(self, place: _Place, profiles: PlanProfiles, now_s: float) -> None:
        """Give a job an earlier place if there is one; mostly one look shows that there is none."""
        job, start_s = place.job, max(now_s, place.start_s)
        if profiles.is_earliest(job, start_s):
            if start_s != place.start_s:
                self._places[job.id] = place._replace(start_s=start_s)
            return
        profiles.give(place.seats, job, start_s)
        self._give_place(job, place.told_s, profiles)

    def _give_place(self, job: WaitingJob, told_s: float | None, profiles: PlanProfiles) -> None:
        """The earliest on any machine, or the machines of a pool."""
        found = profiles.earliest(job)
        if found is None:
            self._places.pop(job.id, None)
            return
        start_s, seats = found
        profiles.reserve(seats, job, start_s)
        self._places[job.id] = _Place(job, seats, start_s, told_s)

    def _due(self, profiles: PlanProfiles, now_s: float) -> Iterator[Decision]:
        """Start what begins now; further tasks of the same job get places behind all others.

        A place whose moment has come is kept until what it takes is really free: whoever is to
        leave may be a moment late.
        """
        due = [place for place in self._places.values() if place.start_s <= now_s]
        while due:
            again = []
            for place in due:
                job = place.job
                seats = profiles.now(place.seats, job)
                if seats:
                    del self._places[job.id]
                    yield Start(job.id, seats=seats)
                    if job.tasks > 1:
                        again.append(job._replace(tasks=job.tasks - 1))
            for job in again:
                self._give_place(job, None, profiles)
            found = [self._places.get(job.id) for job in again]
            due = [place for place in found if place is not None and place.start_s <= now_s]

    def _news(self, machines: Mapping[str, PlannedMachine], now_s: float) -> Iterator[Decision]:
        """Tell of places that are new or better than what was told."""
        for id_, place in list(self._places.items()):
            rests_on_open_claim = place.start_s > now_s + OPEN_END_S / 2
            start_s, told_s = None if rests_on_open_claim else place.start_s, place.told_s
            if start_s is not None and told_s is not None:
                is_news = abs(start_s - told_s) >= PROMISE_STEP_S
            else:
                is_news = start_s != told_s
            if is_news:
                self._places[id_] = place._replace(told_s=start_s)
                machine = machine_of(place.seats)
                pool = "" if machine else pool_of(place.seats, machines)
                yield PlannedStart(id_, machine, start_s, pool)
