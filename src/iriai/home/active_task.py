"""A task that has been started and has not finished: its last attempt; and a job's stored state."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from iriai.home.parallel_attempt import ParallelAttempt, SeatEnds
from iriai.home.task_end import TaskEnd
from iriai.model.job import Dependency, JobSpec
from iriai.model.ranks import SeatPlace
from iriai.model.records import SeatReasons
from iriai.model.state import EndCause, TaskEvent, TaskState, next_state
from iriai.model.suspension import Reasons, SuspendReason, in_order, reasons_text

"""Change, whether it is wanted, and reasons by first rank, each with whether it waits for cpus."""


class StoredTaskReasons(NamedTuple):
    """`TaskReasons` in a snapshot."""

    change: int
    is_wanted: bool
    seats: dict[int, tuple[Reasons, bool]]
    moved_to: int | None = None
    seen: str = ""
    by: str = ""


class TaskReasons(msgspec.Struct):
    """Why the attempt of one task does not run."""

    change: int = 0
    """The number of what its user wanted last."""
    is_wanted: bool = False
    """Whether its user wants it suspended."""
    seats: dict[int, tuple[Reasons, bool]] = {}
    """By first rank, what its machine told last: reasons, and whether it waits for its cpus."""
    moved_to: int | None = None
    """The lower queue in which it goes on; None: it is in that of its job."""
    seen: str = ""
    """What was seen of the owner for whom a part of it does not run, as was told last."""
    by: str = ""
    """The user or policy that wanted something last."""

    @property
    def reasons(self) -> Reasons:
        """Return all reasons for which a part of it does not run."""
        given = [reason for reasons, _ in self.seats.values() for reason in reasons]
        return in_order([*given, SuspendReason.USER] if self.is_wanted else given)

    @property
    def is_resuming(self) -> bool:
        """Return whether a part of it waits for its cpus, which others have."""
        return not self.is_wanted and any(waits for _, waits in self.seats.values())

    @property
    def stored(self) -> StoredTaskReasons:
        """Return it as a snapshot keeps it."""
        seats = dict(self.seats)
        told = (self.moved_to, self.seen, self.by)
        return StoredTaskReasons(self.change, self.is_wanted, seats, *told)

    @property
    def text(self) -> str:
        """Return for people why it does not run; empty: it does."""
        return reasons_text(self.reasons, is_resuming=self.is_resuming, seen=self.seen)


class ActiveTask(msgspec.Struct):
    """A task that has been started at least once and has not finished."""

    attempt: int
    """The number of its last attempt."""
    state: TaskState
    machine: str
    """Of the first seat."""
    lost: int = 0
    """The number of its attempts that were lost."""
    stopping: bool = False
    """True if a user cancelled it while it ran."""
    spec: JobSpec | None = None
    """The specification of its attempt, if the job was altered since; None: the job's."""
    parallel: ParallelAttempt | None = None
    """The seats of its attempt; None: one rank, on `machine`."""
    suspension: TaskReasons | None = None
    """None: its attempt was never suspended."""
    is_leaving: bool = False
    """Whether its attempt is to end, and the task to wait again."""

    @property
    def is_decided(self) -> bool:
        """Whether the attempt starts: until then its machines hold its seats at most."""
        return self.parallel is None or self.parallel.is_decided

    def has_seat(self, rank: int) -> bool:
        """Return whether a seat of the attempt begins with `rank`, and is not over."""
        return not rank if self.parallel is None else rank in self.parallel

    def machine_of(self, rank: int) -> str:
        """Return the machine of the seat that begins with `rank`, and is not over."""
        return self.machine if self.parallel is None else self.parallel.place(rank).machine

    def machine_with(self, rank: int) -> str | None:
        """Return the machine that runs, or ran, `rank` of the attempt; None: there is none."""
        if self.parallel is None:
            return None if rank else self.machine
        return self.parallel.machine_with(rank)

    @property
    def has_started(self) -> bool:
        """Whether a process of its attempt is known to have begun, and none to be the last."""
        return self.state in (TaskState.RUNNING, TaskState.SUSPENDED)

    @property
    def has_input(self) -> bool:
        """Whether rank 0, which input goes to, is known to run."""
        has_first = self.parallel is None or self.parallel.has_first
        return has_first and self.has_started

    def ranks_of(self, rank: int) -> int:
        """Return how many ranks the seat has that begins with `rank`, and is not over."""
        return 1 if self.parallel is None else self.parallel.place(rank).ranks

    def is_awaited(self, rank: int) -> bool:
        """Return whether the seat that has `rank` is not over."""
        return not rank if self.parallel is None else self.parallel.seat_of(rank) is not None

    def seats(self) -> tuple[tuple[int, str], ...]:
        """Return first rank and machine of each seat that is not over."""
        if self.parallel is None:
            return ((0, self.machine),)
        return tuple((rank, place.machine) for rank, place in self.parallel.seats())

    # --- suspension ------------------------------------------------------------------------------

    def wanted(self, by: str, *, is_wanted: bool) -> None:
        """Note whether its user, or a policy, wants it suspended."""
        suspension = self.suspension = self.suspension or TaskReasons()
        suspension.change += 1
        suspension.by = by
        suspension.is_wanted = is_wanted
        self.settle()

    def told(self, seat: SeatReasons) -> None:
        """Note what the machine of a seat says of its suspension."""
        suspension = self.suspension = self.suspension or TaskReasons()
        seats = dict(suspension.seats)
        seats.pop(seat.rank, None)
        if seat.reasons:
            seats[seat.rank] = seat.reasons, seat.is_resuming
        suspension.seats = seats
        suspension.seen = seat.seen or ("" if not seats else suspension.seen)
        if seat.moved_to is not None:
            suspension.moved_to = seat.moved_to
        self.settle()

    @property
    def moved_to(self) -> int | None:
        """The lower queue in which its attempt goes on; None: it is in that of its job."""
        return None if self.suspension is None else self.suspension.moved_to

    def seat_over(self, rank: int) -> None:
        """Forget what was told of a seat that is over."""
        if self.suspension is not None and rank in self.suspension.seats:
            self.told(SeatReasons(0, self.attempt, rank, ()))

    def settle(self) -> None:
        """Be suspended while there is a reason, and else run, if it has started."""
        has_reason = self.suspension is not None and bool(self.suspension.reasons)
        if has_reason and self.state is TaskState.RUNNING:
            self.state = next_state(self.state, TaskEvent.SUSPEND)
        elif not has_reason and self.state is TaskState.SUSPENDED:
            self.state = next_state(self.state, TaskEvent.RESUME)


class FoldedJob(msgspec.Struct, array_like=True):
    """A `Snapshot`'s content. Fields are only ever appended, with a default."""

    handed_out: int
    requeued: list[int]
    skipped: list[int]
    tasks: list[tuple[int, int, TaskState, str, int, bool]]
    counts: dict[EndCause, int]
    held: bool
    worst: TaskEnd | None
    promised_wall_s: float | None
    promised_machine: str
    open_after: tuple[Dependency, ...] = ()
    spec: JobSpec | None = None
    """The altered specification, if any."""
    former: tuple[JobSpec, ...] = ()
    """The specifications of attempts that were started before an alteration."""
    former_of: tuple[tuple[int, int], ...] = ()
    """(task index, place in `former`) of each of those."""
    steps: int = 0
    parallel: tuple[tuple[int, tuple[SeatPlace, ...], bool, SeatEnds], ...] = ()
    """(task index, seats, whether they were decided, ends) of each parallel attempt."""
    suspended: tuple[tuple[int, StoredTaskReasons], ...] = ()
    """(task index, what is known) of each attempt that was ever suspended."""
    held_by: str = ""
    is_operators_hold: bool = False
    comment: str = ""
    leaving: tuple[int, ...] = ()
    """The indices of tasks whose attempts are to end, and which wait again then."""
