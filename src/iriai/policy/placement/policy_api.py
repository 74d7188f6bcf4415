"""The interface of a whole policy: waiting jobs and machines in, starts out.

A policy is an object with a method `plan(view, now)`, which returns decisions or yields them one by
one. Each decision is looked at, and takes effect in the view, before the next one is asked for; so
a policy that yields sees what its own decisions left. The broker asks after everything that
happened at one instant, and at `wake_s` where a policy has that attribute. The same file serves the
daemon (`[order] policy` in iriai.toml) and `iriai simulate --policy`.

Decisions are `Start` and `PlannedStart`. The names Suspend, Resume, Requeue, Move and End are kept
for later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import inf
from typing import NamedTuple, Protocol

from iriai.model.ids import Account, JobId
from iriai.model.instant import Instant
from iriai.model.ranks import ONE, RankShape
from iriai.model.resources import Resources
from iriai.policy.placement.seats import Room, Seats, seats_of


def anywhere(_machine: str) -> bool:
    """Return True: the job requires nothing, and neither do owners."""
    return True


class WaitingJob(NamedTuple):
    """A job with tasks that wait; they are alike."""

    id: JobId
    account: Account
    resources: Resources
    """Of each task."""
    stay_s: float | None
    """How long a task keeps its place at most, grace and slack included; None: no limit."""
    urgency: float
    queued_at_s: float
    """On the steady clock."""
    tasks: int
    """How many wait."""
    promised_start_s: float | None = None
    """What its home was told of its first task's start, on the steady clock."""
    may_run_on: Callable[[str], bool] = anywhere
    """Whether a machine matches, by its name: what the job requires, and what its owner does."""
    shape: RankShape = ONE
    """The ranks of each task; `resources` are of one."""
    across_pools: bool = False
    """Whether the machines of a task may be of several pools."""
    least_s: float | None = None
    """For how long a place has to be free beside reservations; None: for as long as it stays."""

    @property
    def needed_s(self) -> float | None:
        """Return for how long it needs a place beside reservations; None: for ever."""
        return self.stay_s if self.least_s is None else self.least_s

    @property
    def is_evictable(self) -> bool:
        """Return whether it leaves for a reservation before it has used up its stay."""
        return self.needed_s != self.stay_s


class Claimed(NamedTuple):
    """The resources of one machine that a task holds, or a reservation from its start on."""

    resources: Resources
    end_s: float
    """On the steady clock, at the latest; a task without a limit ends in a year."""
    start_s: float = -inf
    """Of a reservation: when it starts."""


class PlannedMachine(Protocol):
    """A machine, as a policy sees it."""

    @property
    def name(self) -> str:
        """Return its name, as decisions use it."""
        ...

    @property
    def pool(self) -> str:
        """Return the name of its pool: machines alike, of which a task's ranks take one's."""
        ...

    @property
    def capacity(self) -> Resources:
        """Return all its resources."""
        ...

    @property
    def free(self) -> Resources:
        """Return what no task holds now; nothing if the machine takes no tasks now."""
        ...

    @property
    def ended(self) -> int:
        """Return the number of claims that have ended, and of changes of reservations there.

        If it grew, more may start than a policy planned with.
        """
        ...

    def claimed(self) -> Iterator[Claimed]:
        """Yield the running claims beside reservations, in the order of their ends."""
        ...

    def booked(self) -> Iterator[Claimed]:
        """Yield what reservations have there from their starts to their ends."""
        ...

    def fit(self, job: WaitingJob) -> int:
        """Return how many ranks of a task of `job` fit now, and stay beside reservations."""
        ...

    def earliest_s(self, resources: Resources) -> float | None:
        """Return when `resources` fit at the latest if nothing else starts; None: never."""
        ...


class View(Protocol):
    """The input of a policy; read only."""

    @property
    def machines(self) -> Sequence[PlannedMachine]:
        """Return all machines that are online, by name."""
        ...

    def queue(self) -> Iterator[WaitingJob]:
        """Yield the waiting jobs that could ever run, in the configured order.

        Under an order that draws, each step is a draw: an account is drawn, its next job comes, and
        counts as if it ran. The generator stands still while a decision takes effect.
        """
        ...


class Start(NamedTuple):
    """The next task of `job` starts now: on `machine`, or on the machines of its seats."""

    job: JobId
    machine: str = ""
    seats: Seats = ()
    """Where its ranks go, in their order; a job of several ranks needs them."""


class PlannedStart(NamedTuple):
    """The next task of `job` starts on `machine` at `start_s` (steady clock) at the latest.

    Its owner is told. A promise is the policy's to keep. `start_s` None takes it back. Where
    it is to start on several machines, or which one is open, that name is empty, and `pool` may
    name theirs.
    """

    job: JobId
    machine: str
    start_s: float | None
    pool: str = ""


Decision = Start | PlannedStart


def seats_now(job: WaitingJob, machines: Iterable[PlannedMachine]) -> Seats:
    """Return where a task of `job` could start now; empty: it fits nowhere.

    Its ranks go to machines of one pool, on which most of them fit, as many as fit of those that it
    asks for. Of equal machines, and of several pools, the first that is given comes first.
    """
    pools: dict[str, list[Room]] = {}
    for machine in machines:
        fit = machine.fit(job)
        if fit and job.may_run_on(machine.name):
            pool = "" if job.across_pools else machine.pool
            pools.setdefault(pool, []).append(Room(machine.name, fit))
    return next(filter(None, (seats_of(rooms, job.shape) for rooms in pools.values())), ())


class Policy(Protocol):
    """What a file for `--policy FILE.py:CLASS` holds; made once, without arguments."""

    def plan(self, view: View, now: Instant) -> Iterable[Decision]:
        """Return the decisions for this moment, as any iterable or as a generator."""
        ...


class PlanSource(NamedTuple):
    """A policy, and where it came from."""

    policy: Policy
    path: str
    """Its file, for messages; empty: it is built in, and what it lets out is an internal error."""
