"""Job steps of this home's jobs: numbered, ordered, and known until their clients have their ends.

docs/spec/011, section 8. The order of a step is kept by its client alone: it repeats it after this
daemon was restarted. While the home knows a step it repeats the order itself, when the machine can
be reached again; who has it already starts nothing twice.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from iriai.home.completion import EventLog
from iriai.home.job import JobState
from iriai.model.ids import AttemptId
from iriai.model.problem import NotFound, Refused
from iriai.model.records import Stepped
from iriai.model.state import EndCause, TaskState
from iriai.protocol.messages.effects import Effect, Part, Send, StepChanged
from iriai.protocol.messages.steps import (
    ForgetStep,
    Step,
    StepBegun,
    StepEnded,
    StepToNode,
    StopStep,
)

STEPS_MAX = 65_536
"""Of one job: as many as a seat may have, which remembers their numbers."""
ENDS_MAX = 4096
"""Ends that nobody fetched: of more the oldest is forgotten."""
END_WAIT_S = 10.0
"""How long the end of a step may follow that of its attempt; its machine may be lost."""
MACHINES_SHOWN_MAX = 10
SEAT_OVER = "the attempt beside which it ran has ended"


@dataclass(slots=True)
class _Live:
    """A step that is not over."""

    order: Step
    machine: str
    user: str
    is_begun: bool = False
    is_seat_over: bool = False
    """Whether its attempt is over."""
    seen_over_s: float | None = None
    """When somebody looked first after that."""


class NamedStep(NamedTuple):
    """A step that has its number."""

    step: AttemptId
    rank: int
    machine: str
    """Of its seat."""


def seat_of(job: JobState, attempt: AttemptId, rank: int) -> tuple[AttemptId, str]:
    """Return the seat that has a rank of a current attempt, and its machine.

    Raises `NotFound` if it has no such rank, `Refused` if that has ended.
    """
    task = job.tasks[attempt.index]
    parallel = task.parallel
    if parallel is None and not rank:
        return attempt, task.machine
    ranks = 1 if parallel is None else sum(place.ranks for place in parallel.places)
    if parallel is None or rank >= ranks:
        has = "rank 0 alone" if ranks == 1 else f"ranks 0 to {ranks - 1}"
        raise NotFound("no-such-rank", f"{attempt.task} has no rank {rank}", f"it has {has}")
    seat = parallel.seat_of(rank)
    if seat is None:
        raise Refused("not-running", f"rank {rank} of {attempt.task} has ended")
    first, place = seat
    return attempt.seat(first), place.machine


def machines_of(job: JobState, index: int) -> tuple[str, ...]:
    """Return the machines of a task's seats; none if it has no claim."""
    task = job.tasks.get(index)
    if task is None or task.state is TaskState.QUEUED:
        return ()
    if task.parallel is None:
        return (task.machine,)
    return tuple(place.machine for place in task.parallel.places)


def rank_on(job: JobState, index: int, machine: str) -> int:
    """Return the first rank of a running task on a machine; raise `Refused` if it has none."""
    task, first = job.tasks[index], 0
    places = () if task.parallel is None else task.parallel.places
    for place in places:
        if place.machine == machine:
            return first
        first += place.ranks
    if not places and task.machine == machine:
        return 0
    there = machines_of(job, index)
    shown = ", ".join(there[:MACHINES_SHOWN_MAX])
    more = len(there) - MACHINES_SHOWN_MAX
    raise Refused(
        "no-seat-there",
        f"the task has no seat on {machine}",
        f"it has on {shown}{f' and {more} more' if more > 0 else ''}",
    )


class HomeSteps:
    """The steps that clients wait for."""

    def __init__(
        self, home: str, jobs: Mapping[int, JobState], log: EventLog, effects: list[Effect]
    ) -> None:
        self._home = home
        self._jobs = jobs
        self._log = log
        self._effects = effects
        self.live: dict[AttemptId, _Live] = {}
        """Those that run, or are about to."""
        self._ends: OrderedDict[AttemptId, StepEnded] = OrderedDict()

    # --- for clients -----------------------------------------------------------------------------

    def number(self, job: JobState, index: int, rank: int, by: str, on: str = "") -> NamedStep:
        """Name a new step beside `rank` of a task, or beside the first one on the machine `on`.

        Raises `Refused` if the task does not run or the job had too many, `NotFound` if the task
        has no such rank.
        """
        task = job.tasks.get(index)
        if task is None or not task.has_started or task.stopping:
            name = f"{self._home}-{job.number}.{index}"
            state = "is being cancelled" if task and task.stopping else "does not run"
            raise Refused("not-running", f"{name} {state}", f"see 'iriai show {name}'")
        attempt = AttemptId(self._home, job.number, index, task.attempt)
        if on:
            rank = rank_on(job, index, on)
        seat, machine = seat_of(job, attempt, rank)
        if job.steps >= STEPS_MAX:
            raise Refused(
                "too-many-steps",
                f"the job has had {job.steps} steps; STEPS_MAX = {STEPS_MAX}",
                "start several programs in one step, as a shell does",
            )
        change = Stepped(job.steps + 1, (index, task.attempt), rank, machine, by)
        self._log.apply(job, change)
        return NamedStep(seat.of_step(job.steps), rank, machine)

    def order(self, order: Step, machine: str, user: str, now_s: float) -> None:
        """Have a step started on `machine`, or hear again what became of it.

        `machine` counts only where the attempt is over: an end is kept where the step ran. Raises
        `Refused` if the step has no number of this home, or is not beside that rank.
        """
        step = order.attempt
        if step in self._ends:
            return
        live = self.live.get(step)
        if live is None:
            self.drop_lost(now_s)
            live = self.live[step] = self._new(order, machine, user)
        if not live.is_begun:
            self._send(live.machine, live.order)

    def stop(self, step: AttemptId, grace_s: float) -> None:
        """End a step."""
        live = self.live.get(step)
        if live is not None:
            self._send(live.machine, StopStep(step, grace_s))

    def forget(self, step: AttemptId) -> None:
        """Forget a step that is over: its client has the end."""
        end = self._ends.pop(step, None)
        if end is not None:
            self._send(end.machine, ForgetStep(step))

    def is_begun(self, step: AttemptId) -> bool:
        """Return whether a step runs, or is over."""
        live = self.live.get(step)
        return step in self._ends or (live is not None and live.is_begun)

    def is_known(self, step: AttemptId) -> bool:
        """Return whether a step was ordered since this daemon began, and not forgotten."""
        return step in self.live or step in self._ends

    def is_live(self, step: AttemptId) -> bool:
        """Return whether the end of a step is awaited."""
        return step in self.live

    def machine_of(self, step: AttemptId) -> str:
        """Return where a step runs or ran; empty if it is not known."""
        live, end = self.live.get(step), self._ends.get(step)
        return live.machine if live is not None else end.machine if end is not None else ""

    def end_of(self, step: AttemptId, now_s: float) -> StepEnded | None:
        """Return how a step ended; None: it is not over."""
        live = self.live.get(step)
        if live is not None and live.is_seat_over:
            if live.seen_over_s is None:
                live.seen_over_s = now_s
            if now_s >= live.seen_over_s + END_WAIT_S:
                self._end(StepEnded(step, live.machine, EndCause.CANCELLED, message=SEAT_OVER))
        return self._ends.get(step)

    # --- what nodes and the home's other parts tell ----------------------------------------------

    def begun(self, begun: StepBegun) -> bool:
        """Note that a step runs; return False if it is not that machine's."""
        live = self.live.get(begun.attempt)
        if live is None:
            return True
        if live.machine != begun.machine:
            return False
        if not live.is_begun:
            live.is_begun = True
            self._effects.append(StepChanged(begun.attempt, live.user, is_over=False))
        return True

    def ended(self, end: StepEnded) -> bool:
        """Note how a step ended; return False if it is not that machine's."""
        live = self.live.get(end.attempt)
        if live is None:  # repeated, or the client has not come back yet
            return True
        if live.machine != end.machine:
            return False
        self._end(end)
        return True

    def attempt_over(self, attempt: AttemptId) -> None:
        """Note that an attempt is over: so are its steps, whose ends follow."""
        for step, live in self.live.items():
            if step.seat(0) == attempt:
                live.is_seat_over = True

    def reached(self, machine: str) -> None:
        """Repeat the orders of steps on a machine that can be reached again."""
        for live in self.live.values():
            if live.machine == machine:
                self._send(machine, live.order)

    def drop_lost(self, now_s: float) -> None:
        """End the steps whose attempts have been over for long, and whose ends never came."""
        for step in [step for step, live in self.live.items() if live.is_seat_over]:
            self.end_of(step, now_s)

    # --- within ----------------------------------------------------------------------------------

    def _new(self, order: Step, machine: str, user: str) -> _Live:
        step = order.attempt
        job = self._jobs.get(step.number)
        task = job.tasks.get(step.index) if job is not None else None
        if job is None or task is None or task.attempt != step.attempt:
            return _Live(order, machine, user, is_seat_over=True)
        seat, there = seat_of(job, step.of_seat.seat(0), order.rank)
        if seat != step.of_seat or not 0 < step.step <= job.steps:
            raise Refused("no-such-step", f"{step} is not a job step beside rank {order.rank}")
        return _Live(order, there, user)

    def _end(self, end: StepEnded) -> None:
        live = self.live.pop(end.attempt)
        self._ends[end.attempt] = end
        self._effects.append(StepChanged(end.attempt, live.user, is_over=True))
        if len(self._ends) > ENDS_MAX:
            self.forget(next(iter(self._ends)))

    def _send(self, machine: str, message: StepToNode) -> None:
        self._effects.append(Send(machine, Part.NODE, message))
