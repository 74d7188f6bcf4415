"""Entries of the queue: alike tasks form a class and stand in one line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from iriai.broker.queue.indices import BlockedSortedList, Mask
from iriai.model.bounds import QUEUE_MAX
from iriai.model.ids import Account, JobId, ReservationId
from iriai.model.ranks import ONE, RankShape
from iriai.model.resources import Resources
from iriai.protocol.messages.scheduling import Want

if TYPE_CHECKING:
    from iriai.policy.matching.job_requirements import DemandKey
    from iriai.policy.matching.match import Demand


class ForwardedRequest(Want, frozen=True):
    """The request of a job that another broker forwarded. It never becomes a reserved head."""


def is_guest(want: Want) -> bool:
    """Return whether another broker forwarded it."""
    return isinstance(want, ForwardedRequest)


class Eligibility(NamedTuple):
    """The machines on which tasks may run at all."""

    turned_away: frozenset[str] = frozenset()
    """Machines that do not run tasks of this user and home, as they said."""
    unreadable: str = ""
    """Why this broker cannot read their requirements, so that they run nowhere; empty: it can."""

    def admit(self, machine: str) -> bool:
        """Return whether tasks may run on that machine."""
        return not self.unreadable and machine not in self.turned_away


class TaskClassKey(NamedTuple):
    """The properties that make tasks fit alike."""

    resources: Resources
    stay_s: float | None
    """The longest stay; None: open."""
    exclusive: bool = False
    """True if it takes a whole machine."""
    tenant: str = ""
    """The name it counts as where a machine runs one task of each at a time; empty elsewhere."""
    capped: Account | None = None
    """Its account where all wait in one queue and each has a cap; None elsewhere."""
    demand: DemandKey | None = None
    """The requirements between it and machines beside room; None: there are none."""
    bounds: Eligibility | None = None
    """The machines on which it may not run, whatever they have free; None: it may on all."""
    shape: RankShape = ONE
    """Of each task: `resources` are of one rank."""
    across_pools: bool = False
    """Whether the ranks of a task may be in several pools."""
    is_guest: bool = False
    """True if another cluster's broker forwarded it: no place is kept for it."""
    is_stopped: bool = False
    """True if its queue starts nothing."""
    is_gang: bool = False
    """True if its tasks take turns with others in time slices."""
    reservation: ReservationId | None = None
    """In which its tasks run; None: beside all reservations."""
    least_s: float | None = None
    """For how long there has to be room at least for a task that may be ended before it has used up
    its stay: for a booking, or with that in which it runs. None: for as long as it stays."""


@dataclass(slots=True, eq=False)
class TaskClass:
    """A class of waiting tasks that fit alike."""

    key: TaskClassKey
    position: int
    """Of its shape, in the index of shapes."""
    total: Resources
    """What a task takes with the least number of ranks."""
    is_wide: bool = False
    """Whether its tasks may take several machines."""
    demand: Demand | None = None
    """The machines that match; None: all."""
    lines: list[SubQueue] = field(default_factory=list)
    """Its tasks, a line for each queue that has some."""
    is_possible: bool = False
    """Whether it could run somewhere if nothing else did. Otherwise it does not contend."""
    is_settled: bool = True
    """Whether it is known to fit on no machine but those with new room."""
    looked: int = -1
    """The state (`Placement`) as of which it fits nowhere."""
    held: int = -1
    """The state (`ReservedHeads.held`) as of which heads hold all machines that it could have."""
    unreservable: int = -1
    """The state (`ReservedHeads.changes`) as of which no machine takes it."""
    bit: Mask = field(init=False)
    """Of its shape."""
    is_choosy: bool = field(init=False)
    """Whether free resources alone do not decide where it may run."""
    may_be_head: bool = field(init=False)
    """Whether a place may be kept for a task of it."""
    planned_s: float | None = field(init=False)
    """For how long there has to be room where a task of it is to start; None: for ever."""

    def __post_init__(self) -> None:
        key = self.key
        self.bit = 1 << self.position
        self.is_choosy = key.demand is not None or key.bounds is not None
        self.may_be_head = not key.is_guest and key.reservation is None
        self.planned_s = key.stay_s if key.least_s is None else key.least_s

    def may_run_on(self, machine: str) -> bool:
        """Return whether job and machine permit it to run there now, if there is room."""
        bounds = self.key.bounds
        return (bounds is None or bounds.admit(machine)) and (
            self.demand is None or self.demand.admits(machine)
        )


class Precedence(NamedTuple):
    """Order within an account: level, tasks run before, urgency, time waited, id.

    Smaller comes first.
    """

    level: int
    """The queue that it counts in now: that of its job, or a higher one by its age."""
    not_front: bool
    less_urgent: float
    queued_at_s: float
    job: JobId


BEHIND_ALL = Precedence(QUEUE_MAX + 1, True, inf, inf, JobId("", 0))
"""Larger than the precedence of any task."""


@dataclass(slots=True, eq=False)
class SubQueue:
    """The tasks of one class in one queue, in order."""

    queue: Queue
    kind: TaskClass
    first: Precedence
    """The precedence of the first entry."""
    heap: list[Precedence] = field(default_factory=list)
    """Those of entries that were replaced or moved since are dropped when they come first."""
    bit: Mask = field(init=False)
    """Of the shape of its class."""

    def __post_init__(self) -> None:
        self.bit = self.kind.bit


@dataclass(slots=True)
class QueuedJob:
    """The waiting tasks of one job."""

    want: Want
    precedence: Precedence
    line: SubQueue
    count: int
    front: int
    """The number of its tasks that come before the account's others."""

    @property
    def kind(self) -> TaskClass:
        """Return the class of its tasks."""
        return self.line.kind

    @property
    def stay_s(self) -> float | None:
        """Return how long one of the tasks keeps its place at most; None: open."""
        return self.line.kind.key.stay_s


class ShapesPresent:
    """The shapes (`broker.queue.indices`) that are in a block of lines."""

    __slots__ = ("mask",)

    def __init__(self) -> None:
        self.mask: Mask = 0

    def include(self, line: SubQueue) -> None:
        """Add the shape of a line."""
        self.mask |= line.bit


@dataclass(slots=True, eq=False)
class Queue:
    """Waiting tasks in one order: an account's, or all."""

    lines: dict[TaskClass, SubQueue] = field(default_factory=dict)
    order: BlockedSortedList[Precedence, SubQueue, ShapesPresent] = field(
        default_factory=partial(BlockedSortedList, ShapesPresent)
    )
    """The lines of them that could ever run."""
    first: SubQueue | None = None
    """Of `order`."""
    held: int = -1
    """The state (`ReservedHeads.held`) as of which the first has no place beside heads."""
    mask: Mask = 0
    """The shapes that are in `order`."""
    shapes: dict[int, int] = field(default_factory=dict)
    """The number of lines of `order` by position of their shape."""
    is_behind: bool = False
    """Whether passes went by in which nothing of it was looked at."""
    searched: Precedence | None = None
    """No line that comes before this one fits, as of `searched_as_of`."""
    searched_as_of: int = -1
    """The state (`Placement.searches`) as of which `searched` holds; negative: as of none."""

    def enter(self, line: SubQueue) -> None:
        """Enter a line that contends."""
        self.searched_as_of = -1
        self.order.add(line.first, line)
        self._refresh_first()
        position = line.kind.position
        lines = self.shapes.get(position, 0)
        self.shapes[position] = lines + 1
        if not lines:
            self.mask |= line.bit

    def leave(self, line: SubQueue) -> None:
        """Remove a line that contends no more."""
        self.order.remove(line.first)
        self._refresh_first()
        position = line.kind.position
        lines = self.shapes[position] = self.shapes[position] - 1
        if not lines:
            del self.shapes[position]
            self.mask ^= line.bit

    def move(self, line: SubQueue, first: Precedence) -> None:
        """Move a line that contends to the place of its new first entry."""
        if first < line.first:
            self.searched_as_of = -1
        self.order.remove(line.first)
        self.order.add(first, line)
        self._refresh_first()

    def of(self, mask: Mask, start: Precedence | None = None) -> Iterator[SubQueue]:
        """Yield contending lines of these shapes, in order, from `start` on (default: all).

        No line may change meanwhile.
        """
        blocks, position = self.order.blocks, 0
        if start is not None:
            number, position = self.order.place_of(start)
            blocks = blocks[number:]
        for block in blocks:
            if block.summary.mask & mask:
                is_there = position > 0
                for line in block.items[position:] if position else block.items:
                    if line.bit & mask:
                        is_there = True
                        yield line
                if not is_there:
                    block.summarize()
            position = 0

    def first_from(self, level: int) -> SubQueue | None:
        """Return the first contending line of that level or a lower one."""
        start = Precedence(level, False, -inf, -inf, JobId("", 0))
        number, position = self.order.place_of(start)
        blocks = self.order.blocks
        return blocks[number].items[position] if number < len(blocks) else None

    def _refresh_first(self) -> None:
        first = self.order.first() if self.order else None
        if first is not self.first:
            self.first = first
            self.held = -1
