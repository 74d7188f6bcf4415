"""What is free from now on, by machines or by pools, for a plan of all waiting jobs.

A plan is for the ranks of a job on given machines. Where all waiting jobs have ranks of one cpu
that may lie in any way, all machines of a pool are one for the plan: at every start there are as
many free cpus as were counted, wherever they are, and jobs need not be bound to machines before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from iriai.model.ids import JobId
from iriai.model.ranks import SEATS_MAX, RankShape
from iriai.model.resources import Resources
from iriai.policy.placement.availability_profile import AvailabilityProfile
from iriai.policy.placement.calendar import OPEN_END_S
from iriai.policy.placement.policy_api import PlannedMachine, WaitingJob, anywhere
from iriai.policy.placement.seats import Room, Seat, Seats, rank_fit, seats_of

ONE_CPU = Resources(cpus=1)
POOL = "pool "
"""Before the name of a pool; no machine's name has a blank."""


def is_pool(name: str) -> bool:
    """Return whether a profile is that of a whole pool."""
    return name.startswith(POOL)


def machine_of(seats: Seats) -> str:
    """Return the machine of planned seats; empty: they are on several, or bound to none yet."""
    return "" if len(seats) > 1 or is_pool(seats[0].machine) else seats[0].machine


def pool_of(seats: Seats, machines: Mapping[str, PlannedMachine]) -> str:
    """Return the pool of planned seats; empty: they are of several."""
    pools: dict[str, None] = {}
    for name, _ in seats:
        if is_pool(name):
            pools[name.removeprefix(POOL)] = None
        elif name in machines:
            pools[machines[name].pool] = None
    return next(iter(pools)) if len(pools) == 1 else ""


class PlanProfiles:
    """The profiles at one moment; `machine` of a seat is the name of a profile here."""

    def __init__(
        self, machines: Mapping[str, PlannedMachine], queue: Sequence[WaitingJob], now_s: float
    ) -> None:
        self._now_s = now_s
        self._members: dict[str, list[PlannedMachine]] = {}
        """The machines of each profile."""
        self._by_pool: dict[str, list[str]] = {}
        self._profiles: dict[str, AvailabilityProfile] = {}
        self._unplanned: dict[str, AvailabilityProfile] = {}
        """The same without what is planned; empty: there are no reservations."""
        self._unbooked: dict[str, AvailabilityProfile] = {}
        """The same without reservations, which may be given back; empty: there are none."""
        self._held_s: dict[tuple[JobId, str], float | None] = {}
        """For how long what is planned is there, beside reservations."""
        pools: dict[str, list[PlannedMachine]] = {}
        for machine in machines.values():
            pools.setdefault(machine.pool, []).append(machine)
        self.has_bookings = any(True for each in machines.values() for _ in each.booked())
        is_alike = len(machines) <= SEATS_MAX and not self.has_bookings and _is_alike(queue)
        for pool, members in pools.items():
            if is_alike:
                self._add(pool, f"{POOL}{pool}", members)
            else:
                for machine in members:
                    self._add(pool, machine.name, [machine])
        self._sole = next(iter(self._profiles)) if len(self._profiles) == 1 else None
        """The only profile; None: there are several."""

    def _add(self, pool: str, name: str, members: list[PlannedMachine]) -> None:
        if len(members) == 1:
            capacity = members[0].capacity
        else:
            capacity = Resources(sum(machine.capacity.cpus for machine in members))
        claimed = chain.from_iterable(machine.claimed() for machine in members)
        if self.has_bookings:  # one machine has one profile then
            known = list(claimed)
            booked = [each for machine in members for each in machine.booked()]
            self._profiles[name] = AvailabilityProfile(capacity, known, self._now_s, booked)
            self._unplanned[name] = AvailabilityProfile(capacity, known, self._now_s, booked)
            self._unbooked[name] = AvailabilityProfile(capacity, known, self._now_s)
        else:
            self._profiles[name] = AvailabilityProfile(capacity, claimed, self._now_s)
        self._members[name] = members
        self._by_pool.setdefault(pool, []).append(name)

    def has(self, seats: Seats, job: WaitingJob, *, has_less: bool) -> bool:
        """Return whether there are profiles of all seats, on which the job may run.

        `has_less`: a machine has less than when these seats were found.
        """
        is_anywhere = job.may_run_on is anywhere
        if is_anywhere and not has_less and len(seats) == 1:
            return seats[0].machine in self._profiles
        for name, ranks in seats:
            profile = self._profiles.get(name)
            if profile is None or not (is_anywhere or is_pool(name) or job.may_run_on(name)):
                return False
            if has_less and not _taken(job, ranks).fits_in(profile.capacity):
                return False
        return True

    def is_booked(self, seats: Seats, job: WaitingJob, start_s: float) -> bool:
        """Return whether reservations leave no room for a plan of a task of `job`."""
        return any(self._fit(name, job, start_s) < ranks for name, ranks in seats)

    def reserve(self, seats: Seats, job: WaitingJob, start_s: float) -> None:
        """Plan a task of `job` on these seats."""
        resources, stay_s = job.resources, job.stay_s
        for name, ranks in seats:
            taken = resources if ranks == 1 else resources.times(ranks)
            if self.has_bookings:
                self._unbooked[name].reserve(taken, start_s, job.stay_s)
                stay_s = self._held_s[job.id, name] = self._lasting_s(name, job, ranks, start_s)
            self._profiles[name].reserve(taken, start_s, stay_s)

    def give(self, seats: Seats, job: WaitingJob, start_s: float) -> None:
        """Take such a plan back."""
        for name, ranks in seats:
            stay_s = job.stay_s
            if self.has_bookings:
                self._unbooked[name].give(_taken(job, ranks), start_s, stay_s)
                stay_s = self._held_s[job.id, name]
            self._profiles[name].give(_taken(job, ranks), start_s, stay_s)

    def is_earliest(self, job: WaitingJob, start_s: float) -> bool:
        """Return True if a look shows that a task that is planned then cannot start before."""
        if self._sole is None or self.has_bookings:
            return False
        least, resources = job.shape.least, job.resources
        taken = resources if least == 1 else resources.times(least)
        return self._profiles[self._sole].is_earliest(taken, start_s)

    def earliest(self, job: WaitingJob) -> tuple[float, Seats] | None:
        """Return when and where a task of `job` starts first; of equals the first name."""
        if self._sole is not None and job.may_run_on is anywhere:
            return self._earliest_in([self._sole], job)
        found = (self._earliest_in(names, job) for names in self._groups(job) if names)
        return min((each for each in found if each is not None), default=None)

    def at(self, job: WaitingJob, start_s: float) -> Seats:
        """Return seats for a task of `job` from that moment on; empty: there is no room."""
        seats = (self._seats_at(names, job, start_s) for names in self._groups(job))
        return next(filter(None, seats), ())

    def now(self, seats: Seats, job: WaitingJob) -> Seats:
        """Return what planned seats are on machines; empty: something is not free yet."""
        found: list[Seat] = []
        for name, ranks in seats:
            rooms = [
                Room(machine.name, fit)
                for machine in self._members[name]
                if (fit := self._fit_now(machine, job))
            ]
            there = seats_of(rooms, RankShape(ranks, ranks))
            if not there:
                return ()
            found += there
        return found

    def _fit_now(self, machine: PlannedMachine, job: WaitingJob) -> int:
        return machine.fit(job) if self.has_bookings else rank_fit(job.resources, machine.free)

    def _earliest_in(self, names: list[str], job: WaitingJob) -> tuple[float, Seats] | None:
        """Return when and where a task starts first on machines of which it takes some."""
        shape, stay_s = job.shape, job.stay_s
        is_free = shape.nodes is None and shape.per_node is None and not self.has_bookings
        if len(names) == 1 and is_free:
            least = _taken(job, shape.least)
            start_s = self._profiles[names[0]].earliest_s(least, stay_s, self._now_s)
            if start_s is None:
                return None
            if shape.least == shape.most:
                return start_s, [Seat(names[0], shape.least)]
            return start_s, self._seats_at(names, job, start_s)
        profiles = [self._profiles[name] for name in names]
        if self.has_bookings:
            profiles += [self._unbooked[name] for name in names]
        times = {time_s for each in profiles for time_s in each.times_from(self._now_s)}
        for start_s in sorted(times):
            seats = self._seats_at(names, job, start_s)
            if seats:
                return start_s, seats
        return None

    def _seats_at(self, names: list[str], job: WaitingJob, start_s: float) -> Seats:
        rooms = [Room(name, fit) for name in names if (fit := self._fit(name, job, start_s))]
        return seats_of(rooms, job.shape)

    def _lasting_s(self, name: str, job: WaitingJob, ranks: int, start_s: float) -> float | None:
        """Return for how long ranks stay; what is evictable, until a reservation needs its place.

        A machine that grants it does not know what is planned, so that sends nobody away.
        """
        if not job.is_evictable:
            return job.stay_s
        lasting_s = self._unplanned[name].lasting_s(_taken(job, ranks), start_s)
        return job.stay_s if lasting_s >= (job.stay_s or OPEN_END_S) else lasting_s

    def _fit(self, name: str, job: WaitingJob, start_s: float) -> int:
        """Return how many ranks fit from then on."""
        profile = self._profiles[name]
        if not self.has_bookings:
            return profile.fit(job.resources, start_s, job.stay_s)
        fit = profile.fit(job.resources, start_s, job.needed_s)
        if fit:
            fit = min(fit, self._unbooked[name].fit(job.resources, start_s, job.stay_s))
        while fit and job.is_evictable:
            stay_s = self._lasting_s(name, job, fit, start_s)
            if profile.fit(job.resources, start_s, stay_s) >= fit:
                break
            fit -= 1
        return fit

    def _groups(self, job: WaitingJob) -> Iterable[list[str]]:
        """Yield the profiles of each pool, of which a task takes one's, or any of all."""
        groups: Iterable[list[str]] = self._by_pool.values()
        if job.across_pools:
            groups = [list(self._profiles)]
        elif job.shape.most == 1:
            groups = ([name] for name in self._profiles)
        for names in groups:
            yield [name for name in names if is_pool(name) or job.may_run_on(name)]


def _taken(job: WaitingJob, ranks: int) -> Resources:
    return job.resources if ranks == 1 else job.resources.times(ranks)


def _is_alike(queue: Iterable[WaitingJob]) -> bool:
    """Return whether some have several ranks, and every rank is as good on each free cpu."""
    is_any = False
    for job in queue:
        shape = job.shape
        if (
            job.resources != ONE_CPU
            or job.may_run_on is not anywhere
            or shape.nodes is not None
            or shape.per_node is not None
        ):
            return False
        is_any |= shape.most > 1
    return is_any
