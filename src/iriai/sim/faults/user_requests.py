"""What users of a scenario ask for: jobs and reservations."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace as with_fields

from iriai.model.ids import Account, ReservationId
from iriai.model.instant import Instant
from iriai.model.job import JobSpec
from iriai.model.ranks import ONE, RankShape
from iriai.model.reservation import ReservationTerms
from iriai.model.resources import Resources
from iriai.model.submission import Layout
from iriai.sim.world.work import Work, plain_job

GROUP = "lab"


@dataclass(frozen=True, slots=True)
class Submission:
    """A job that a user submits, with the work of its tasks."""

    user: str
    cpus: int
    tasks: int
    work: Work
    limit_s: float | None = None
    lease_s: float = 12.0
    urgency: float = 1.0
    max_restarts: int | None = None
    memory_bytes: int = 0
    """Memory of each rank; 0: without a limit."""
    shape: RankShape = ONE
    keep_going: bool = False
    layout: Layout = Layout.RANKS
    queue: int = 0
    no_suspend: bool = False
    checkpoint_exit: int | None = None
    reservation: ReservationId | None = None
    or_queue: bool = False
    evictable: bool | None = None

    def spec(self) -> JobSpec:
        """Return the job as its home stores it."""
        resources = Resources(self.cpus, self.memory_bytes)
        return with_fields(
            plain_job(Account(GROUP, self.user), resources, self.limit_s, self.tasks),
            max_restarts=self.max_restarts,
            urgency=self.urgency,
            kill_grace_s=3.0,
            lease_s=self.lease_s,
            shape=self.shape,
            keep_going=self.keep_going,
            layout=self.layout,
            queue=self.queue,
            no_suspend=self.no_suspend,
            checkpoint_exit=self.checkpoint_exit,
            reservation=self.reservation,
            or_queue=self.or_queue,
            evictable=self.evictable,
        )


@dataclass(frozen=True, slots=True)
class AskedReservation:
    """A reservation that a user asks for, from the moment at which they do."""

    user: str
    ahead_s: float
    """From when they ask until its start."""
    length_s: float
    nodes: int
    cpus: int = 0
    """Of each node; 0: the whole machine."""
    users: tuple[str, ...] = ()
    is_earliest: bool = False
    hold_s: float = 10.0
    every: str = ""
    """The rule of a series, as `repeated_times` reads it; empty: it is none."""
    count: int = 0
    """How many occurrences that has."""

    def terms(self, now: Instant) -> ReservationTerms:
        """Return what its home is asked for now."""
        start_wall_s = now.wall_s + self.ahead_s
        return ReservationTerms(
            Account(GROUP, self.user),
            self.user,
            start_wall_s,
            start_wall_s + self.length_s,
            self.nodes,
            Resources(self.cpus) if self.cpus else None,
            users=self.users,
            is_earliest=self.is_earliest,
            hold_s=self.hold_s,
        )


@dataclass(frozen=True, slots=True)
class ChangedReservation:
    """A change of a reservation that a user asks for."""

    later_s: float = 0.0
    """By how much its start is moved."""
    longer_s: float = 0.0
    more_nodes: int = 0
    cpus: int | None = None
    """Of each node; 0: the whole machine; None: as before."""
    users: tuple[str, ...] | None = None

    def terms(self, before: ReservationTerms) -> ReservationTerms:
        """Return what its home is asked for."""
        resources = before.resources
        if self.cpus is not None:
            resources = Resources(self.cpus) if self.cpus else None
        return with_fields(
            before,
            start_wall_s=before.start_wall_s + self.later_s,
            end_wall_s=before.end_wall_s + self.later_s + self.longer_s,
            nodes=max(1, before.nodes + self.more_nodes),
            resources=resources,
            users=before.users if self.users is None else self.users,
            is_earliest=False,
        )
