"""Entries of the queue: alike tasks form a class and stand in one line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from iriai.broker.queue.shape_index import BlockedSortedList, Mask
from iriai.model.ids import Account, JobId
from iriai.model.resources import Resources
from iriai.protocol.messages.scheduling import Want

if TYPE_CHECKING:
    from iriai.policy.matching.job_requirements import Demand, DemandKey


class Eligibility(NamedTuple):
    """The machines on which tasks may run at all."""

    only: tuple[str, ...] = ()
    """These; empty: any."""
    turned_away: frozenset[str] = frozenset()
    """Machines that do not run tasks of this user and home, as they said."""

    def admit(self, machine: str) -> bool:
        """Return whether that machine is within them."""
        return machine not in self.turned_away and (not self.only or machine in self.only)


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
    """Machines that are out of the question whatever they have; None: none is."""
    is_guest: bool = False
    """True if another cluster's broker forwarded it: no place is kept for it."""


class TaskClass:
    """One kind of which tasks wait."""

    __slots__ = (
        "bit",
        "demand",
        "held",
        "is_possible",
        "is_settled",
        "key",
        "lines",
        "looked",
        "position",
        "unreservable",
    )

    def __init__(self, key: TaskClassKey, position: int) -> None:
        self.key = key
        self.position = position
        self.bit: Mask = 1 << position
        """Of its shape."""
        self.demand: Demand | None = None
        """Which machines match; None: all."""
        self.lines: list[SubQueue] = []
        """Its tasks, a line for each queue that has some."""
        self.is_possible = False
        """Whether it could run somewhere if nothing else did. Otherwise it stands aside."""
        self.is_settled = True
        """Whether it is known to fit on no machine but those with new room."""
        self.looked = -1
        """When it was last found to fit nowhere, as `Placement` counts."""
        self.held = -1
        """What reserved heads hold (`ReservedHeads.held`) when it has no place beside them."""
        self.unreservable = -1
        """As of which state of the reserved heads (`ReservedHeads.changes`) no machine takes it."""

    @property
    def is_choosy(self) -> bool:
        """Return whether room is not all that decides where it may run."""
        return self.demand is not None or self.key.bounds is not None

    def may_run_on(self, machine: str) -> bool:
        """Return whether job and machine both say that it may run there now, if there is room."""
        bounds = self.key.bounds
        return (bounds is None or bounds.admit(machine)) and (
            self.demand is None or self.demand.admits(machine)
        )


class Precedence(NamedTuple):
    """Order within an account: what waits again, urgency, time waited, id. Smaller comes first."""

    not_front: bool
    less_urgent: float
    queued_at_s: float
    job: JobId


class SubQueue:
    """The tasks of one kind in one queue, in order."""

    __slots__ = ("bit", "first", "heap", "kind", "queue")

    def __init__(self, queue: Queue, kind: TaskClass, first: Precedence) -> None:
        self.queue = queue
        self.kind = kind
        self.bit = kind.bit
        self.first = first
        """That of the first entry."""
        self.heap: list[Precedence] = []
        """Those of entries that were replaced or moved since are dropped on the way."""


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
        """Equal for tasks that fit alike."""
        return self.line.kind

    @property
    def stay_s(self) -> float | None:
        """Return how long one of the tasks keeps its place at most; None: open."""
        return self.line.kind.key.stay_s


class ShapesPresent:
    """The shapes (`broker.queue.shape_index`) that are in a block of lines."""

    __slots__ = ("mask",)

    def __init__(self) -> None:
        self.mask: Mask = 0

    def include(self, line: SubQueue) -> None:
        """The line is there."""
        self.mask |= line.bit


class Queue:
    """Waiting tasks in one order: an account's, or all."""

    __slots__ = ("first", "held", "is_behind", "lines", "mask", "order", "shapes")

    def __init__(self) -> None:
        self.lines: dict[TaskClass, SubQueue] = {}
        self.order: BlockedSortedList[Precedence, SubQueue, ShapesPresent] = BlockedSortedList(
            ShapesPresent
        )
        """Those of them that could ever run."""
        self.first: SubQueue | None = None
        """Of `order`."""
        self.held = -1
        """What reserved heads hold (`ReservedHeads.held`) when that has no place beside them."""
        self.mask: Mask = 0
        """The shapes that are in `order`."""
        self.shapes: dict[int, int] = {}
        """How many lines of `order` are of each."""
        self.is_behind = False
        """Whether passes went by in which nothing of it was looked at."""

    def enter(self, line: SubQueue) -> None:
        """The line contends."""
        self.order.add(line.first, line)
        self._refresh_first()
        position = line.kind.position
        lines = self.shapes.get(position, 0)
        self.shapes[position] = lines + 1
        if not lines:
            self.mask |= line.bit

    def leave(self, line: SubQueue) -> None:
        """The line contends no more."""
        self.order.remove(line.first)
        self._refresh_first()
        position = line.kind.position
        lines = self.shapes[position] = self.shapes[position] - 1
        if not lines:
            del self.shapes[position]
            self.mask ^= line.bit

    def move(self, line: SubQueue, first: Precedence) -> None:
        """A line that contends has another first entry."""
        self.order.remove(line.first)
        self.order.add(first, line)
        self._refresh_first()

    def of(self, mask: Mask) -> Iterator[SubQueue]:
        """Contending lines of these shapes, in order; nothing may change meanwhile."""
        for block in self.order.blocks:
            if not block.summary.mask & mask:
                continue
            is_there = False
            for line in block.items:
                if line.bit & mask:
                    is_there = True
                    yield line
            if not is_there:
                block.summarize()

    def _refresh_first(self) -> None:
        first = self.order.first() if self.order else None
        if first is not self.first:
            self.first = first
            self.held = -1
