"""The interface of a whole policy: the cluster and its waiting jobs in, decisions out.

A policy is an object with a method `plan(view, now)`, which returns decisions or yields them one by
one. Each decision is looked at, and takes effect in the view, before the next one is asked for; so
a policy that yields sees what its own decisions left. The broker asks after everything that
happened at one instant, and at `wake_s` where a policy has that attribute. The same file serves the
daemon (`[order] policy` in iriai.toml), `iriai simulate --policy` and `iriai policy check`.

Decisions are `Start`, `PlannedStart`, and those about jobs of `job_decisions`. None may break a
booking, nor the promise of another job: such a decision is refused. docs/guide/policies.md has the
interface beside that of paper 004.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import inf
from typing import TYPE_CHECKING, NamedTuple, Protocol

from iriai.model.ids import Account, AttemptId, JobId, ReservationId
from iriai.model.instant import Instant
from iriai.model.ranks import ONE, RankShape
from iriai.model.resources import Resources
from iriai.policy.placement.job_decisions import HeldJob, JobDecision
from iriai.policy.placement.seats import Room, Seats, seats_of

if TYPE_CHECKING:
    from iriai.policy.placement.bookings import BookedSpan


NAME_MAX = 64
"""Characters of a policy's name."""


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
    queue: int = 0
    """The number of its queue."""
    user: str = ""
    """The user that its tasks run as."""
    requirements: str = ""
    """The expression that it requires of machines; `may_run_on` has the result."""
    is_exclusive: bool = False
    """Whether each task takes a whole machine."""
    comment: str = ""
    """What a policy wrote on it; of homes that let policies change their jobs."""

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


class PlacedTask(NamedTuple):
    """A task, or the ranks of one, that holds resources of a machine."""

    attempt: AttemptId | None
    """None: it was started a moment ago, and its machine has not said that it runs."""
    job: JobId | None
    """Known for either; None in a replay, which has no jobs of homes."""
    account: Account | None
    resources: Resources
    """What it holds now: while it is suspended, less than it asked for."""
    end_s: float
    """On the steady clock, at the latest; a task without a limit ends in a year."""
    is_suspended: bool = False
    """Whether its user, its queue or an owner keeps it from running."""
    queue: int = 0
    """The number of the queue that it is in now."""
    asked: str = ""
    """What a policy asked of it a moment ago, such as `requeue`; empty: nothing."""
    reservation: ReservationId | None = None
    """In which it runs; None: beside all."""


class QueueState(NamedTuple):
    """A queue, and how much is in it."""

    number: int
    state: str
    """`active`; `enabled`: takes jobs and starts none; `disabled`: refuses jobs, and what is in it
    goes on; `gone`: it is configured no more."""
    mode: str
    """`shared`, `exclusive` or `gang`: what its running tasks do for those of a higher queue."""
    waiting: int
    """Tasks."""
    running: int
    """Tasks that run or were just started."""


class ClusterSummary(NamedTuple):
    """The cluster as a whole."""

    name: str
    """Empty: the broker's machine is of no cluster."""
    capacity: Resources
    """Of the machines that are online; and what is free there."""
    free: Resources
    waiting: int
    """Tasks."""
    running: int


class ClosedMachine(NamedTuple):
    """A machine on which nothing can be started now."""

    name: str
    reason: str


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

    def tasks(self) -> Iterator[PlacedTask]:
        """Yield the tasks that run there, those inside of reservations too, by their ends."""
        ...

    def bookings(self) -> Sequence[BookedSpan]:
        """Return the reservations with their ids, times and resources, by their starts."""
        ...

    def fit(self, job: WaitingJob) -> int:
        """Return how many ranks of a task of `job` fit now.

        Beside reservations for as long as they stay, and in the way of no other job's promise.
        """
        ...

    def start_s(self, job: WaitingJob) -> float | None:
        """Return when a rank of a task of `job` may start there first; None: it is not known.

        Beside tasks until their latest ends, reservations, and the promises of other jobs. It is
        not known where it rests on the end of a task without a limit.
        """
        ...

    def earliest_s(self, resources: Resources) -> float | None:
        """Return when `resources` fit at the latest if nothing else starts; None: never."""
        ...


class View(Protocol):
    """The input of a policy; read only. What is not asked for costs nothing."""

    @property
    def cluster(self) -> ClusterSummary:
        """Return the state of the cluster."""
        ...

    @property
    def queues(self) -> Sequence[QueueState]:
        """Return all queues, by number: the first comes first."""
        ...

    @property
    def closed(self) -> Sequence[ClosedMachine]:
        """Return the machines that take no tasks now, by name."""
        ...

    @property
    def machines(self) -> Sequence[PlannedMachine]:
        """Return all machines that are online, by name."""
        ...

    @property
    def held(self) -> Sequence[HeldJob]:
        """Return the jobs that are held, of homes that let policies change their jobs."""
        ...

    def may(self, decision: type[JobDecision], job: JobId) -> bool:
        """Return whether the home of `job` lets a policy decide that, such as `HoldJob`."""
        ...

    def refusal(self, target: JobId | AttemptId) -> str:
        """Return why its home refused the last decision about a job, or an attempt; empty: no.

        For five minutes, in which an equal decision is not sent again.
        """
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

    Its owner is told. `start_s` None takes it back. Where it is to start on several machines, or
    which one is open, that name is empty, and `pool` may name theirs. With a machine, or `seats`,
    it is refused where it does not fit then beside tasks, bookings and other promises, and no other
    job may start in its way. Without them the promise is the policy's to keep.
    """

    job: JobId
    machine: str
    start_s: float | None
    pool: str = ""
    seats: Seats = ()
    """Where its ranks are to go; a job of several ranks needs them for its places to be kept."""


Decision = Start | PlannedStart | JobDecision


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


def place_for(job: WaitingJob, machines: Iterable[PlannedMachine]) -> PlannedStart | None:
    """Return the promise of the earliest place for a task of one rank.

    None: there is none, or it has several ranks. Of machines with the same time the first that is
    given has it.
    """
    best: PlannedStart | None = None
    for machine in machines if job.shape == ONE else ():
        start_s = machine.start_s(job) if job.may_run_on(machine.name) else None
        if start_s is not None and (best is None or start_s < (best.start_s or 0.0)):
            best = PlannedStart(job.id, machine.name, start_s)
    return best


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

    @property
    def name(self) -> str:
        """Return the name of its class, as jobs tell who changed them."""
        name: object = getattr(self.policy, "name", None)
        return str(name if isinstance(name, str) else type(self.policy).__name__)[:NAME_MAX]
