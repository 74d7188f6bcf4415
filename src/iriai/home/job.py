"""The state of one job: the replay of its events.

Each change has one method here, used both when it happens and when it is replayed. A task that was
neither started nor changed costs nothing: the tasks of an array are a cursor over its ranges, and
only tasks that run, are queued again or were cancelled early are stored one by one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from operator import itemgetter
from typing import NamedTuple, assert_never

import msgspec
from msgspec.structs import replace

from iriai.home.active_task import ActiveTask, FoldedJob, TaskReasons
from iriai.home.parallel_attempt import ParallelAttempt
from iriai.home.task_end import TaskEnd
from iriai.model.alteration import Alteration
from iriai.model.job import Dependency, JobSpec, task_count, task_indices
from iriai.model.ranks import SeatPlace
from iriai.model.records import (
    Altered,
    Attempted,
    AttemptResult,
    Cancelled,
    Change,
    Commented,
    Decided,
    DependencyFailed,
    DependencyMet,
    Ended,
    Held,
    Promised,
    ReasonsTold,
    Released,
    Requeued,
    ReservationOver,
    SeatEnded,
    Snapshot,
    Started,
    Stepped,
    UserSuspended,
)
from iriai.model.state import (
    ATTEMPT_ONLY,
    EndCause,
    IllegalTransition,
    TaskEvent,
    TaskState,
    next_state,
)

_first_of = itemgetter(0)


class JobOutcome(NamedTuple):
    """The outcome of a finished job."""

    worst: TaskEnd
    completed: int
    """The number of tasks that completed."""
    others: int
    """The number of tasks that ended in any other way."""


_NO_TASKS: dict[int, ActiveTask] = {}
_NO_COUNTS: dict[EndCause, int] = {}
"""Of all jobs that only wait: two dictionaries for each were a tenth of what a job takes."""
_encode = msgspec.msgpack.Encoder().encode
_decode_folded = msgspec.msgpack.Decoder(FoldedJob).decode


@dataclass(slots=True, eq=False)
class JobState:
    """The state of one job, from acceptance to its last end."""

    number: int
    spec: JobSpec
    submitted_wall_s: float
    sequence: int = 0
    """The sequence number of the last event."""
    held: bool = field(init=False)
    held_by: str = field(init=False)
    """The user or policy that holds it, or did so last; empty: nobody ever did."""
    is_operators_hold: bool = False
    """Whether its user may not release it."""
    comment: str = ""
    open_after: tuple[Dependency, ...] = field(init=False)
    """The dependencies that are not met yet."""
    altered: bool = False
    """True if `spec` is no longer the one that was submitted."""
    tasks: dict[int, ActiveTask] = field(init=False)
    """Tasks that run or wait again, by index; changed by the job alone."""
    waiting: int = field(init=False)
    """The number of tasks that could start, or would if the job were not held."""
    counts: dict[EndCause, int] = field(init=False)
    """Tasks that have ended, by cause; changed by the job alone."""
    worst: TaskEnd | None = None
    promised_wall_s: float | None = None
    promised_machine: str = ""
    steps: int = 0
    """The number of its last job step."""
    listing: bytes | None = None
    """An encoded line of a listing, kept by its author; None after each change."""
    _cursor: Iterator[int] | None = None
    _handed_out: int = 0
    _next_index: int = field(init=False)
    _requeued: list[int] | None = None
    _skipped: set[int] | None = None

    def __post_init__(self) -> None:
        self.held = self.spec.held
        self.held_by = self.spec.user if self.held else ""
        self.open_after = self.spec.after
        self.tasks, self.counts = _NO_TASKS, _NO_COUNTS
        self.waiting = task_count(self.spec.array)
        self._next_index = self.spec.array[0][0]

    @property
    def ready(self) -> int:
        """Return the number of tasks that could start now."""
        if self.held or self.open_after:
            return 0
        throttle = self.spec.throttle
        return self.waiting if throttle is None else max(0, min(self.waiting, self.room))

    @property
    def room(self) -> int:
        """Return how many more tasks its throttle admits; without one, all that wait."""
        throttle = self.spec.throttle
        return self.waiting if throttle is None else throttle - self.active

    @property
    def active(self) -> int:
        """Return the number of tasks that hold a claim."""
        return len(self.tasks) - self.requeued

    @property
    def total(self) -> int:
        """Return the number of tasks of the job."""
        return task_count(self.spec.array)

    @property
    def is_finished(self) -> bool:
        """Return whether its last task has ended."""
        return not self.waiting and not self.tasks

    @property
    def spoilt_by(self) -> EndCause | None:
        """Return the worst cause of its ends so far; None: all ended tasks completed."""
        if self.worst is None or self.worst.cause is EndCause.COMPLETED:
            return None
        return self.worst.cause

    @property
    def requeued(self) -> int:
        """Return the number of tasks that wait again after an attempt."""
        return len(self._requeued) if self._requeued else 0

    def spec_of(self, index: int) -> JobSpec:
        """Return the specification of the current attempt of a task."""
        return self.tasks[index].spec or self.spec

    def has_index(self, index: int) -> bool:
        """Return whether the job has a task `index`."""
        ranges = self.spec.array
        position = bisect_right(ranges, index, key=_first_of) - 1
        if position < 0:
            return False
        first, last, step = ranges[position]
        return index <= last and (index - first) % step == 0

    def first_waiting(self) -> int:
        """Return the index of the task that starts next: requeued ones come first."""
        return self._requeued[0] if self._requeued else self._next_index

    def next_attempt(self, index: int) -> int:
        """Return the number of the next attempt of a waiting task."""
        task = self.tasks.get(index)
        return task.attempt + 1 if task else 1

    def task_state(self, index: int) -> TaskState:
        """Return the state of one task; the caller knows that the job has this index."""
        task = self.tasks.get(index)
        if task is not None and task.state is not TaskState.QUEUED:
            return task.state
        if task is None and (index < self._next_index or self._is_skipped(index)):
            return TaskState.FINISHED
        if task is None and not self.waiting:
            return TaskState.FINISHED
        return TaskState.HELD if self.held else TaskState.QUEUED

    # --- changes ---------------------------------------------------------------------------------

    def attempted(
        self, index: int, attempt: int, machine: str, seats: tuple[SeatPlace, ...] = ()
    ) -> None:
        """Claim the first waiting task for an attempt."""
        if index != self.first_waiting():
            raise IllegalTransition(f"{index} is not the first that waits")
        self.listing = None
        state = next_state(TaskState.QUEUED, TaskEvent.ATTEMPT)
        if self._requeued:
            heappop(self._requeued)
            task = self.tasks[index]
            task.attempt, task.state, task.machine, task.spec = attempt, state, machine, None
            task.is_leaving = False
        else:
            task = ActiveTask(attempt, state, machine)
            self._add(index, task)
            self._advance()
        task.parallel = ParallelAttempt(seats) if seats else None
        self.waiting -= 1
        self.promised_wall_s = None

    def decided(self, index: int, attempt: int) -> None:
        """Mark that a parallel attempt starts: its machines hold all its seats."""
        self._parallel_of(index, attempt).is_decided = True

    def seat_ended(self, result: AttemptResult) -> None:
        """End one seat of a parallel attempt."""
        self.listing = None
        index = result.attempt.index
        parallel = self._parallel_of(index, result.attempt.attempt)
        has_run = self.tasks[index].state is not TaskState.CLAIMED
        parallel.note_end(result, self.spec_of(index), has_run=has_run)
        self.tasks[index].seat_over(result.attempt.rank)

    def started(self, index: int, attempt: int) -> None:
        """Mark an attempt as running."""
        self.listing = None
        task = self._task_of(index, attempt)
        task.state = next_state(task.state, TaskEvent.START)
        task.settle()

    def ended(
        self, index: int, attempt: int, cause: EndCause, exit_code: int | None, signal: int | None
    ) -> EndCause | None:
        """End an attempt, and its task unless that is requeued.

        Return the cause of the task's end; None: it was requeued.
        """
        self.listing = None
        task = self._task_of(index, attempt)
        task.lost += cause is EndCause.LOST
        if self._is_repeated(task, cause):
            task.state, task.spec = next_state(task.state, TaskEvent.REQUEUE), None
            task.parallel = task.suspension = None
            task.is_leaving = False
            self._requeued = self._requeued or []
            heappush(self._requeued, index)
            self.waiting += 1
            return None
        next_state(task.state, TaskEvent.FINISH)
        del self.tasks[index]
        if task.stopping and (cause in ATTEMPT_ONLY or cause is EndCause.LOST):
            cause = EndCause.CANCELLED
        self._count(TaskEnd(cause, exit_code, signal), 1)
        return cause

    def cancelled(self, indices: tuple[int, ...]) -> int:
        """Cancel tasks (all if `indices` is empty): end those that wait, mark those that run.

        The job has each of them. Return the number of tasks concerned.
        """
        self.listing = None
        stopped = 0
        for index in indices or tuple(self.tasks):
            task = self.tasks.get(index)
            if task is not None and task.state is not TaskState.QUEUED:
                stopped += not task.stopping
                task.stopping = True
        return stopped + self._cancel_waiting(indices)

    def dependency_met(self, ends: tuple[tuple[Dependency, EndCause], ...]) -> None:
        """Remove the dependencies that are met."""
        met = [dependency for dependency, _ in ends]
        self.open_after = tuple(each for each in self.open_after if each not in met)

    def withdrawn(self) -> None:
        """Cancel the waiting tasks, because a dependency can never hold."""
        self.open_after = ()
        self._cancel_waiting(())

    def reservation_over(self) -> None:
        """Cancel the waiting tasks, or let them wait on without their reservation."""
        if self.spec.or_queue:
            self._start_from_now_with(replace(self.spec, reservation=None))
        else:
            self.withdrawn()

    def change(self, now: Alteration) -> None:
        """Apply an alteration to tasks that start from now on."""
        before = self.spec
        self._start_from_now_with(now.applied(before))
        if "after" in now.fields:
            self.open_after = self.spec.after
        is_larger = (before.resources, before.exclusive) != (
            self.spec.resources,
            self.spec.exclusive,
        )
        if is_larger or not self.ready:  # the promise was for another request
            self.promised_wall_s = None

    def apply(self, change: Change) -> None:
        """Replay one stored change."""
        match change:
            case Attempted() | Decided() | Started() | SeatEnded() | Ended():
                self._apply_to_attempts(change)
            case UserSuspended() | ReasonsTold() | Requeued():
                self._apply_to_running(change)
            case Cancelled(indices):
                self.cancelled(indices)
            case Held(by, is_operators):
                self.held, self.held_by, self.is_operators_hold = True, by, is_operators
                self.promised_wall_s = None
            case Released():
                self.held = self.is_operators_hold = False
            case Commented(text):
                self.comment = text
            case Promised(start_wall_s, machine, _):
                self.promised_wall_s, self.promised_machine = start_wall_s, machine
            case DependencyMet() | DependencyFailed() | ReservationOver():
                self._apply_condition(change)
            case Altered(_, now, _):
                self.change(now)
            case Stepped(step):
                self.steps = step
            case Snapshot(state):
                self._unfold(_decode_folded(state))
            case _:
                assert_never(change)
        self.listing = None

    def _apply_to_running(self, change: UserSuspended | ReasonsTold | Requeued) -> None:
        match change:
            case UserSuspended(tasks, by, is_wanted):
                for index, attempt in tasks:
                    self._task_of(index, attempt).wanted(by, is_wanted=is_wanted)
            case ReasonsTold(seats):
                for seat in seats:
                    self._task_of(seat.index, seat.attempt).told(seat)
            case Requeued(tasks):
                for index, attempt in tasks:
                    self._task_of(index, attempt).is_leaving = True

    def _apply_condition(self, change: DependencyMet | DependencyFailed | ReservationOver) -> None:
        match change:
            case DependencyMet(ends):
                self.dependency_met(ends)
            case DependencyFailed():
                self.withdrawn()
            case _:
                self.reservation_over()

    def _apply_to_attempts(self, change: Attempted | Decided | Started | SeatEnded | Ended) -> None:
        match change:
            case Attempted(tasks, machine, seats):
                for index, attempt in tasks:
                    self.attempted(index, attempt, machine, seats)
            case Decided(tasks):
                for index, attempt in tasks:
                    self.decided(index, attempt)
            case Started(tasks):
                for index, attempt in tasks:
                    self.started(index, attempt)
            case SeatEnded(results):
                for result, _ in results:
                    self.seat_ended(result)
            case Ended(ends, _):
                for end in ends:
                    self.ended(*end)

    def folded(self) -> Snapshot:
        """Return one event with the result of all events so far."""
        former: dict[JobSpec, int] = {}
        former_of = [
            (index, former.setdefault(task.spec, len(former)))
            for index, task in self.tasks.items()
            if task.spec is not None
        ]
        return Snapshot(
            _encode(
                FoldedJob(
                    self._handed_out,
                    sorted(self._requeued or ()),
                    sorted(self._skipped or ()),
                    [
                        (index, t.attempt, t.state, t.machine, t.lost, t.stopping)
                        for index, t in self.tasks.items()
                    ],
                    self.counts,
                    self.held,
                    self.worst,
                    self.promised_wall_s,
                    self.promised_machine,
                    self.open_after,
                    self.spec if self.altered else None,
                    tuple(former),
                    tuple(former_of),
                    self.steps,
                    tuple(
                        (index, parallel.places, parallel.is_decided, parallel.ends)
                        for index, task in self.tasks.items()
                        if (parallel := task.parallel) is not None
                    ),
                    tuple(
                        (index, task.suspension.stored)
                        for index, task in self.tasks.items()
                        if task.suspension is not None
                    ),
                    self.held_by,
                    self.is_operators_hold,
                    self.comment,
                    tuple(index for index, task in self.tasks.items() if task.is_leaving),
                )
            ),
            self.open_after,
        )

    def equals(self, other: JobState) -> bool:
        """Return whether both are one job after the same events, however those were folded."""
        return (self.number, self.spec, self.sequence, self.waiting, self.folded()) == (
            other.number,
            other.spec,
            other.sequence,
            other.waiting,
            other.folded(),
        )

    def check(self) -> None:
        """Raise if the counts do not add up to the job's tasks (invariant (c) of one job)."""
        ended = sum(self.counts.values())
        assert not _NO_TASKS, "all waiting jobs share it"
        assert not _NO_COUNTS, "all waiting jobs share it"
        assert self.waiting >= 0
        assert self.waiting + self.active + ended == self.total, f"job {self.number}: tasks lost"

    # --- the cursor ------------------------------------------------------------------------------

    def _advance(self) -> None:
        """Move to the next task that was neither started nor cancelled."""
        if self._cursor is None:
            self._cursor = task_indices(self.spec.array)
            for _ in range(self._handed_out + 1):
                next(self._cursor)
        while True:
            self._handed_out += 1
            following = next(self._cursor, None)
            if following is None:
                self._next_index = self.spec.array[-1][1] + 1
                return
            if self._skipped is None or following not in self._skipped:
                self._next_index = following
                return
            self._skipped.discard(following)

    def _is_skipped(self, index: int) -> bool:
        return self._skipped is not None and index in self._skipped

    def _cancel_waiting(self, indices: tuple[int, ...]) -> int:
        """Cancel waiting tasks, all if `indices` is empty; return how many."""
        withdrawn = self._withdraw(indices)
        if withdrawn:
            self._count(TaskEnd(EndCause.CANCELLED, None, None), withdrawn)
        return withdrawn

    def _withdraw(self, indices: tuple[int, ...]) -> int:
        """End tasks that wait; returns how many there were."""
        if not indices:
            for index in self._requeued or ():
                del self.tasks[index]
            withdrawn, self.waiting = self.waiting, 0
            self._requeued = self._skipped = self._cursor = None
            self._next_index = self.spec.array[-1][1] + 1
            self._handed_out = self.total
            return withdrawn
        withdrawn = 0
        for index in indices:
            if self.task_state(index) in (TaskState.QUEUED, TaskState.HELD):
                self._withdraw_one(index)
                withdrawn += 1
        return withdrawn

    def _withdraw_one(self, index: int) -> None:
        self.waiting -= 1
        if index in self.tasks:
            del self.tasks[index]
            assert self._requeued is not None
            self._requeued.remove(index)
            heapify(self._requeued)
        elif index == self._next_index:
            self._advance()
        else:
            self._skipped = self._skipped or set()
            self._skipped.add(index)

    # --- helpers of the changes ------------------------------------------------------------------

    def _start_from_now_with(self, spec: JobSpec) -> None:
        """Have tasks that start from now on follow another specification."""
        for task in self.tasks.values():
            if task.state is not TaskState.QUEUED and task.spec is None:
                task.spec = self.spec
        self.spec, self.altered = spec, True

    def _is_repeated(self, task: ActiveTask, cause: EndCause) -> bool:
        if task.stopping:
            return False
        if cause is EndCause.LOST:
            limit = self.spec.max_restarts
            return limit is None or task.lost <= limit
        return cause in ATTEMPT_ONLY

    def _task_of(self, index: int, attempt: int) -> ActiveTask:
        """Return the task whose current attempt is this; raise `IllegalTransition` for others."""
        task = self.tasks[index]
        if task.attempt != attempt:
            raise IllegalTransition(f"attempt {attempt} of a task whose current is {task.attempt}")
        return task

    def _parallel_of(self, index: int, attempt: int) -> ParallelAttempt:
        """Return the seats of this attempt; raise `IllegalTransition` if it has none."""
        parallel = self._task_of(index, attempt).parallel
        if parallel is None:
            raise IllegalTransition(f"attempt {attempt} of a task has one rank")
        return parallel

    def _add(self, index: int, task: ActiveTask) -> None:
        if not self.tasks:
            self.tasks = {}
        self.tasks[index] = task

    def _count(self, outcome: TaskEnd, tasks: int) -> None:
        if not self.counts:
            self.counts = {}
        self.counts[outcome.cause] = self.counts.get(outcome.cause, 0) + tasks
        if self.worst is None or outcome.is_worse(self.worst):
            self.worst = outcome

    def _unfold(self, folded: FoldedJob) -> None:
        if self._handed_out:
            raise IllegalTransition("a snapshot is the first event that is replayed")
        self.counts = folded.counts or _NO_COUNTS
        self.waiting -= sum(self.counts.values())
        for index, attempt, state, machine, lost, stopping in folded.tasks:
            self._add(index, ActiveTask(attempt, state, machine, lost, stopping))
        for index, place in folded.former_of:
            self.tasks[index].spec = folded.former[place]
        for index, places, is_decided, ends in folded.parallel:
            self.tasks[index].parallel = ParallelAttempt(places, is_decided, ends)
        for index, suspended in folded.suspended:
            self.tasks[index].suspension = TaskReasons(*suspended)
        for index in folded.leaving:
            self.tasks[index].is_leaving = True
        if folded.spec is not None:
            self.spec, self.altered = folded.spec, True
        self.open_after = folded.open_after
        self._requeued = folded.requeued or None
        self.waiting -= self.active
        self.held, self.worst, self.comment = folded.held, folded.worst, folded.comment
        self.held_by, self.is_operators_hold = folded.held_by, folded.is_operators_hold
        self.promised_wall_s = folded.promised_wall_s
        self.promised_machine = folded.promised_machine
        self.steps = folded.steps
        self._skipped = set(folded.skipped) or None
        self._handed_out = folded.handed_out
        self._next_index = next(
            (i for n, i in enumerate(task_indices(self.spec.array)) if n >= folded.handed_out),
            self.spec.array[-1][1] + 1,
        )
