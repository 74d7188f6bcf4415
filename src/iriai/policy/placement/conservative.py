"""Conservative backfill: every waiting job has a planned start that no later job delays.

After Mu'alem and Feitelson, "Utilization, predictability, workloads, and user runtime estimates in
scheduling the IBM SP2 with backfilling", IEEE TPDS 12 (2001), section 2.2. A job gets the earliest
place that leaves all others theirs, in the order of the queue. When something ends early, each
moves up in turn as far as it can, while the others keep their places: a promise is only improved.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from iriai.model.ids import JobId
from iriai.model.instant import Instant
from iriai.policy.placement.availability_profile import AvailabilityProfile
from iriai.policy.placement.calendar import OPEN_END_S
from iriai.policy.placement.policy_api import (
    Decision,
    PlannedMachine,
    PlannedStart,
    Start,
    View,
    WaitingJob,
)

CONSERVATIVE = "conservative"
"""Its name as `[order] backfill`."""
PLACES_MAX = 1000
"""Jobs with a place. Each end looks at all of them, and each look at all that run and all places;
the time of a pass grows with the square. Who stands behind that many waits for one to be free."""
PROMISE_STEP_S = 1.0
"""A promise is told again when it improves by at least this much; less is noise to a person."""


class _Place(NamedTuple):
    job: WaitingJob
    machine: str
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

    def plan(self, view: View, now: Instant) -> Iterator[Decision]:
        """Move up, give places to what is new, start what begins now."""
        now_s = now.steady_s
        queue = list(islice(view.queue(), PLACES_MAX))
        machines = {machine.name: machine for machine in view.machines}
        self._forget({job.id: job for job in queue}, machines)
        profiles = self._profiles(machines, now_s)
        if self._has_ended(machines):
            for place in list(self._places.values()):
                self._move_up(place, profiles, now_s)
        for job in queue:
            if job.id not in self._places:
                self._give_place(job, job.promised_start_s, profiles, now_s)
        yield from self._due(machines, profiles, now_s)
        yield from self._news(now_s)
        starts_s = [place.start_s for place in self._places.values()]
        self.wake_s = min((start_s for start_s in starts_s if start_s > now_s), default=None)

    def _forget(
        self, waiting: dict[JobId, WaitingJob], machines: dict[str, PlannedMachine]
    ) -> None:
        """Drop what waits no more or changed, and what its machine can no longer keep."""
        for id_, place in list(self._places.items()):
            job = waiting.get(id_)
            is_kept = (
                job is not None
                and (job.resources, job.stay_s) == (place.job.resources, place.job.stay_s)
                and place.machine in machines
                and job.may_run_on(place.machine)
            )
            if not is_kept:
                del self._places[id_]

    def _profiles(
        self, machines: dict[str, PlannedMachine], now_s: float
    ) -> dict[str, AvailabilityProfile]:
        profiles = {
            name: AvailabilityProfile(machine.capacity, machine.claimed(), now_s)
            for name, machine in machines.items()
        }
        for place in self._places.values():
            start_s = max(now_s, place.start_s)
            profiles[place.machine].reserve(place.job.resources, start_s, place.job.stay_s)
        return profiles

    def _has_ended(self, machines: dict[str, PlannedMachine]) -> bool:
        ended = {name: machine.ended for name, machine in machines.items()}
        if ended == self._ended:
            return False
        self._ended = ended
        return True

    def _move_up(
        self, place: _Place, profiles: dict[str, AvailabilityProfile], now_s: float
    ) -> None:
        """Give a job an earlier place if there is one; mostly one look shows that there is none."""
        job, profile, start_s = place.job, profiles[place.machine], max(now_s, place.start_s)
        if len(profiles) == 1 and profile.is_earliest(job.resources, start_s):
            if start_s != place.start_s:
                self._places[job.id] = place._replace(start_s=start_s)
            return
        profile.give(job.resources, start_s, job.stay_s)
        self._give_place(job, place.told_s, profiles, now_s)

    def _give_place(
        self,
        job: WaitingJob,
        told_s: float | None,
        profiles: dict[str, AvailabilityProfile],
        now_s: float,
    ) -> None:
        """The earliest on any machine."""
        starts = (
            (profile.earliest_s(job.resources, job.stay_s, now_s), name)
            for name, profile in profiles.items()
            if job.may_run_on(name)
        )
        best = min(
            ((start_s, name) for start_s, name in starts if start_s is not None), default=None
        )
        if best is None:
            self._places.pop(job.id, None)
            return
        start_s, name = best
        profiles[name].reserve(job.resources, start_s, job.stay_s)
        self._places[job.id] = _Place(job, name, start_s, told_s)

    def _due(
        self,
        machines: dict[str, PlannedMachine],
        profiles: dict[str, AvailabilityProfile],
        now_s: float,
    ) -> Iterator[Decision]:
        """Start what begins now; further tasks of the same job get places behind all others.

        A place whose moment has come is kept until what it takes is really free: whoever is to
        leave may be a moment late.
        """
        due = [place for place in self._places.values() if place.start_s <= now_s]
        while due:
            again = []
            for place in due:
                job = place.job
                if job.resources.fits_in(machines[place.machine].free):
                    del self._places[job.id]
                    yield Start(job.id, place.machine)
                    if job.tasks > 1:
                        again.append(job._replace(tasks=job.tasks - 1))
            for job in again:
                self._give_place(job, None, profiles, now_s)
            found = [self._places.get(job.id) for job in again]
            due = [place for place in found if place is not None and place.start_s <= now_s]

    def _news(self, now_s: float) -> Iterator[Decision]:
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
                yield PlannedStart(id_, place.machine, start_s)
