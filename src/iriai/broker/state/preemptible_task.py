"""A running task that stands aside for higher queues, or takes turns (docs/spec/013, section 7)."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from math import inf

from iriai.broker.machines.machine_view import ClaimKey, MachineView
from iriai.model.ids import AttemptId
from iriai.model.resources import Resources
from iriai.model.turn import ALWAYS, RowSet
from iriai.protocol.messages.scheduling import Capability


class Standing(Enum):
    """Whether a task has its cpus."""

    RUNS = "runs"
    ASIDE = "aside"
    """Not while a pass serves higher levels; it takes them again in the same pass if it can."""
    PREEMPTED = "preempted"


class PreemptibleSeat:
    """The claim of one seat, or the match that becomes one."""

    __slots__ = ("gathered_cpus", "is_ending", "resources", "view")

    def __init__(self, view: MachineView, resources: Resources) -> None:
        self.view = view
        self.resources = resources
        """What it holds while it runs alone."""
        self.gathered_cpus = 0
        """Those that its machine keeps for it while it stands, until there are enough on all."""
        self.is_ending = False
        """Whether its machine does not freeze it, since it is being ended: it keeps its cpus."""


@dataclass(slots=True, eq=False)
class PreemptibleTask:
    """A running task, with all its seats."""

    queue: int
    level: int
    order: int
    """Of its start: of one level, who was first takes its cpus first."""
    is_gang: bool
    """Whether it takes turns with others: not without a limit of memory, so nothing swaps."""
    seats: dict[ClaimKey, PreemptibleSeat] = field(default_factory=dict)
    standing: Standing = Standing.RUNS
    row: int = 0
    turn: RowSet = ALWAYS
    is_stopped: bool = False
    """Whether it stands because its queue is stopped."""
    since_s: float = 0.0
    """Since when it stands, or runs, on the steady clock."""
    not_before_s: float = -inf
    """Until when it stands, whatever is free."""
    attempt: AttemptId | None = None
    """The name of its first seat; None: no machine has told of any."""
    machines: frozenset[str] = frozenset()
    """Those that it was matched with: no other has a seat of it. Empty: another broker knew."""

    @property
    def precedence(self) -> tuple[int, int]:
        """Return its order among others: smaller takes its cpus first."""
        return self.level, self.order

    @property
    def is_granted(self) -> bool:
        """Return whether no seat is a match yet, which may still fail."""
        return not any(isinstance(key, Capability) for key in self.seats)

    def needs_cpus(self, seat: PreemptibleSeat) -> bool:
        """Return whether a seat has its cpus, or is to have them."""
        return self.standing is Standing.RUNS or seat.is_ending

    def held_cpus(self, seat: PreemptibleSeat) -> int:
        """Return the cpus of a seat that nobody else may have, time slices apart."""
        return seat.resources.cpus if self.needs_cpus(seat) else seat.gathered_cpus

    def is_in_row(self, key: ClaimKey) -> bool:
        """Return whether a seat has its cpus in the rows of its task alone."""
        return self.is_gang and self.needs_cpus(self.seats[key])

    def cpus_by_machine(self) -> dict[str, int]:
        """Return what it has or is to have, time slices apart."""
        cpus: dict[str, int] = {}
        for seat in self.seats.values():
            if self.needs_cpus(seat):
                name = seat.view.name
                cpus[name] = cpus.get(name, 0) + seat.resources.cpus
        return cpus


def has_all(view: MachineView, resources: Resources) -> bool:
    """Return whether a claim has the whole machine: its cpus alone are of no use to others."""
    return resources == view.calendar.capacity
