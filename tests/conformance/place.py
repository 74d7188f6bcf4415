"""Where a launcher works, as its daemon's node sees it: orders go in, events come out.

Stories are told of a `Place` and do not know whether a real launcher or a model is behind it.
"""

from __future__ import annotations

import itertools
import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from iriai.model.ids import Account, AttemptId
from iriai.model.job import JobSpec
from iriai.model.owner import NO_CONDITIONS
from iriai.model.state import EndCause
from iriai.model.time_slices import SliceTurn
from iriai.protocol.messages.effects import (
    AttemptExited,
    AttemptsSampled,
    AttemptStarted,
    Effect,
    ForgetAttempt,
    LaunchAttempt,
    LauncherAttached,
    LauncherEvent,
    OrderCycle,
    OwnerNoticed,
    PrologFailed,
    RenewLeases,
    SampleAttempts,
    TerminateAttempt,
    WatchOwner,
)
from iriai.sim.world.work import End, Work

HOME = "ume"
LONG = Work(600.0)
STUBBORN = Work(600.0, stubborn=True)
NO_TIME = Work(0.0)
GAME = f"iriai-play-{os.getpid()}"
"""A program that no task runs."""
_numbers, _cycles, _orders = itertools.count(1), itertools.count(1), itertools.count(1)
Event = TypeVar("Event")


class Lease(NamedTuple):
    """How long a task may run, and since when."""

    lease_s: float
    leased_steady_s: float


class Place(ABC):
    """A launcher and its daemon; what is common to all kinds."""

    user: str
    directory: str

    def __init__(self) -> None:
        self.heard: list[LauncherEvent] = []
        """What this daemon was told, from its welcome on."""
        self.ordered: list[AttemptId] = []
        self.cycle_number = 0
        """Of the last cycle that was ordered."""
        self.conditions = NO_CONDITIONS
        """Which are signs, by the orders from now on."""
        self.watch_number = 0
        """Of the last standing order; 0: the launcher has none."""

    # --- what a kind of place does ---------------------------------------------------------------

    @abstractmethod
    def prepare(self, attempt: AttemptId, work: Work) -> tuple[str, ...]:
        """Have `attempt` do this; returns its command."""

    @abstractmethod
    def order(self, *effects: Effect) -> None:
        """Ask for these, one after the other."""

    @abstractmethod
    def until(self, condition: Callable[[], object], what: str) -> None:
        """Let time pass until `condition` holds."""

    @abstractmethod
    def pass_s(self, seconds: float) -> None:
        """Let so much time pass."""

    @abstractmethod
    def steady_s(self) -> float:
        """The steady clock."""

    @abstractmethod
    def wall_s(self) -> float:
        """The wall clock."""

    @abstractmethod
    def runs(self, attempt: AttemptId) -> bool:
        """Whether its process is there, whatever anybody was told."""

    @abstractmethod
    def starts(self, attempt: AttemptId) -> int:
        """How often it began."""

    @abstractmethod
    def attach(self) -> None:
        """A new daemon comes, in the place of the old one, and is welcomed."""

    @abstractmethod
    def die(self) -> None:
        """The launcher is killed."""

    @abstractmethod
    def come_up(self) -> None:
        """The next launcher comes, and the daemon attaches."""

    @abstractmethod
    def stop(self) -> None:
        """The launcher sleeps."""

    @abstractmethod
    def wake(self) -> None:
        """It goes on."""

    @abstractmethod
    def have_prolog(self, *, fails: bool) -> None:
        """Have a prolog that fails, or none, from the next `attach` on."""

    @abstractmethod
    def use(self) -> None:
        """The owner gives a sign."""

    @abstractmethod
    def play(self, *, begins: bool) -> None:
        """The owner starts the program `GAME`, or ends it."""

    # --- what a daemon asks ----------------------------------------------------------------------

    def launch(
        self,
        work: Work = NO_TIME,
        *,
        lease: Lease | None = None,
        home: str = HOME,
        **spec: object,
    ) -> AttemptId:
        """Order a new attempt."""
        attempt = AttemptId(home, next(_numbers), 0, 1)
        self.order(self.new(attempt, work, lease, **spec))
        return attempt

    def begin(self, work: Work = LONG, **more: object) -> AttemptId:
        """Order a new attempt, and see it at its work."""
        attempt = self.launch(work, **more)  # type: ignore[arg-type]
        self.until(lambda: self.start_of(attempt), f"the start of {attempt}")
        self.until(lambda: self.starts(attempt), f"the work of {attempt}")
        return attempt

    def new(
        self, attempt: AttemptId, work: Work, lease: Lease | None = None, **more: object
    ) -> LaunchAttempt:
        """The order of an attempt that does this work."""
        self.ordered.append(attempt)
        fields = {
            "account": Account("staff", self.user),
            "user": self.user,
            "name": "test",
            "command": self.prepare(attempt, work),
            "working_directory": self.directory,
            "output": "",
            "kill_grace_s": 0.2,
        }
        spec = JobSpec(**(fields | more))  # type: ignore[arg-type]
        return LaunchAttempt(attempt, spec, (), *(lease or ()))

    def terminate(
        self, attempt: AttemptId, grace_s: float, cause: EndCause = EndCause.CANCELLED
    ) -> None:
        self.order(TerminateAttempt(attempt, cause, grace_s))

    def forget(self, attempt: AttemptId) -> None:
        self.order(ForgetAttempt(attempt))
        self.settle()

    def renew(self, asked_steady_s: float, home: str = HOME) -> None:
        self.order(RenewLeases(home, asked_steady_s))

    def take_turns(
        self,
        masks: dict[AttemptId, int],
        *,
        quantum_s: float = 0.125,
        rows: int = 2,
        number: int = 0,
    ) -> None:
        """Have attempts take turns, from a row 0 that begins now."""
        turns = tuple(SliceTurn(*each) for each in masks.items())
        self.cycle_number = number or next(_cycles)
        self.order(OrderCycle(self.cycle_number, quantum_s, rows, self.steady_s(), turns))

    def watch(
        self,
        *exempt: AttemptId,
        suspends: bool = True,
        signs: int = 0,
        are_over: bool = False,
        number: int = 0,
    ) -> None:
        """Give a standing order."""
        self.watch_number = number or next(_orders)
        more = (signs, are_over, self.conditions)
        self.order(WatchOwner(self.watch_number, suspends, exempt, *more))

    def lease(self, lease_s: float, ago_s: float = 0.0) -> Lease:
        """A lease that began some time ago."""
        return Lease(lease_s, self.steady_s() - ago_s)

    def settle(self) -> None:
        """Wait until the launcher has taken in all that it was asked."""
        self.samples()

    def samples(self) -> list[AttemptId]:
        """Whose use the launcher tells."""
        before = len(self._heard(AttemptsSampled))
        self.order(SampleAttempts())
        self.until(lambda: len(self._heard(AttemptsSampled)) > before, "samples")
        return [attempt for attempt, _ in self._heard(AttemptsSampled)[-1].samples]

    # --- what it was told ------------------------------------------------------------------------

    def start_of(self, attempt: AttemptId) -> AttemptStarted | None:
        """The latest word of its start."""
        told = [each for each in self._heard(AttemptStarted) if each.attempt == attempt]
        return told[-1] if told else None

    def exit_of(self, attempt: AttemptId) -> AttemptExited:
        """The first word of its end, waited for."""
        self.until(lambda: attempt in self.exits(), f"the end of {attempt}")
        return self.exits()[attempt]

    def end_of(self, attempt: AttemptId) -> End:
        """How it ended: cause, exit code, signal."""
        end = self.exit_of(attempt)
        return end.cause, end.exit_code, end.signal

    def exits(self) -> dict[AttemptId, AttemptExited]:
        """The ends that were told."""
        return {each.attempt: each for each in reversed(self._heard(AttemptExited))}

    def alive(self) -> dict[AttemptId, float]:
        """What ran, and since when, when this daemon was welcomed."""
        return dict(self._heard(LauncherAttached)[-1].alive)

    def noticed(self) -> OwnerNoticed | None:
        """The last word of the owner."""
        told = self._heard(OwnerNoticed)
        return told[-1] if told else None

    def signs(self) -> int:
        """How many signs were told."""
        noticed = self.noticed()
        return 0 if noticed is None else noticed.signs

    def unfit(self) -> list[AttemptId]:
        """Whose prolog is told to have failed."""
        return [each.attempt for each in self._heard(PrologFailed)]

    def _heard(self, kind: type[Event]) -> list[Event]:
        return [each for each in self.heard if isinstance(each, kind)]

    def clean(self) -> None:
        """End and forget all that was ordered, for the next story."""
        self.take_turns({}, rows=0)
        self.conditions = NO_CONDITIONS
        if self.watch_number:
            self.watch(suspends=False, number=0)
        for attempt in self.ordered:
            self.terminate(attempt, 0.0)
        self.settle()
        still = self.samples()
        self.until(lambda: set(still) <= set(self.exits()), "the end of all")
        for attempt in self.ordered:
            self.order(ForgetAttempt(attempt))
        self.settle()
        self.ordered.clear()
        self.heard.clear()
