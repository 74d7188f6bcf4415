"""An attempt with several ranks: its seats, the decision to start, and its end.

What the home stores of it is made of events (`JobState`); the phases that machines have answered
are not, since they answer again. docs/spec/011, sections 5 and 7, has the rules.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import accumulate

import msgspec

from iriai.home.task_end import TaskEnd
from iriai.model.charge_factors import Factors
from iriai.model.claim import Phase
from iriai.model.ids import AttemptId
from iriai.model.job import JobSpec
from iriai.model.ranks import SeatPlace
from iriai.model.records import AttemptResult
from iriai.model.state import ATTEMPT_ONLY, EndCause
from iriai.model.submission import Layout
from iriai.model.usage import Usage


class SeatEnds(msgspec.Struct, array_like=True):
    """What the seats of one attempt that are over have in common: sums, and how it ends."""

    over: list[int] = []
    """The first rank of each."""
    verdict: TaskEnd | None = None
    """The end of the attempt, as soon as one seat decides it; the others are stopped then."""
    worst: TaskEnd = TaskEnd(EndCause.COMPLETED, 0, None)
    """The worst end of a seat, which is that of the attempt if none decides."""
    message: str = ""
    """Of the seat whose end is that of the attempt."""
    cpu_s: float = 0.0
    memory_peak_bytes: int = 0
    read_bytes: int = 0
    written_bytes: int = 0
    started_wall_s: float = 0.0
    """The earliest; 0: none has run."""
    ended_wall_s: float = 0.0
    elapsed_s: float = 0.0
    """The longest."""
    charge_s: float = 0.0
    returned_s: float = 0.0
    factors: Factors = ()
    """Of the seat that took longest."""

    def add(self, result: AttemptResult, spec: JobSpec, *, has_run: bool) -> None:
        """Count the end of a seat; `has_run`: a rank of the attempt has run."""
        self.over.append(result.attempt.rank)
        end = TaskEnd(result.cause, result.exit_code, result.signal)
        if self.verdict is None:
            if _decides(result, spec, has_run=has_run or result.elapsed_s > 0.0):
                self.verdict, self.message = end, result.message
            elif end.is_worse(self.worst):
                self.worst, self.message = end, result.message
        used = result.usage
        self.cpu_s += used.cpu_s
        self.memory_peak_bytes += used.memory_peak_bytes
        self.read_bytes += used.read_bytes
        self.written_bytes += used.written_bytes
        self.charge_s += result.charge_s
        self.returned_s += result.returned_s
        self.ended_wall_s = max(self.ended_wall_s, result.ended_wall_s)
        if result.elapsed_s > 0.0:
            started = self.started_wall_s or result.started_wall_s
            self.started_wall_s = min(started, result.started_wall_s)
            if result.elapsed_s > self.elapsed_s:
                self.elapsed_s, self.factors = result.elapsed_s, result.factors

    @property
    def end(self) -> TaskEnd:
        """The end of the attempt, if all its seats are over."""
        return self.verdict or self.worst

    def result(self, attempt: AttemptId, machine: str) -> AttemptResult:
        """Return the row of the whole attempt."""
        end = self.end
        return AttemptResult(
            attempt,
            machine,
            end.cause,
            end.exit_code,
            end.signal,
            Usage(self.cpu_s, self.memory_peak_bytes, self.read_bytes, self.written_bytes),
            self.started_wall_s or self.ended_wall_s,
            self.ended_wall_s,
            self.elapsed_s,
            self.charge_s,
            self.message,
            self.factors,
            self.returned_s,
        )


def _decides(result: AttemptResult, spec: JobSpec, *, has_run: bool) -> bool:
    """Return whether the end of this seat is that of the attempt."""
    if spec.layout is Layout.FIRST and not result.attempt.rank:
        return True
    if result.cause is EndCause.COMPLETED:
        return False
    return not (spec.keep_going and has_run) or result.cause in ATTEMPT_ONLY


@dataclass(slots=True)
class ParallelAttempt:
    """The seats of one attempt, by first rank."""

    places: tuple[SeatPlace, ...]
    """As they were matched, in order of their ranks."""
    is_decided: bool = False
    """Whether the home has stored that it starts: all its machines held their seats."""
    ends: SeatEnds = field(default_factory=SeatEnds)
    is_start_sent: bool = True
    """Whether a start may have been sent: not before this home's own count says so."""
    has_first: bool = False
    """Whether the first seat is known to run: only it takes input."""
    port: int = 0
    """One that was free on the first machine; 0: not known."""
    _answers: dict[int, Phase] = field(default_factory=dict)
    """The phase that the machine of each seat has stored, by first rank."""
    _confirmed: int = 0
    """How many of them have confirmed."""
    _firsts: list[int] = field(init=False)
    """The first rank of each of `places`, and how many ranks there are."""
    _seats: dict[int, SeatPlace] = field(init=False)
    """Those that are not over, by first rank."""

    def __post_init__(self) -> None:
        self._firsts = list(accumulate((place.ranks for place in self.places), initial=0))
        self._seats = dict(zip(self._firsts, self.places, strict=False))
        for over in self.ends.over:
            del self._seats[over]
        if len(self.places) == 1:  # its machine holds, confirms and starts it in one step
            self.is_decided = True
            self._answers[0] = Phase.STARTED
            self._confirmed = 1

    def __contains__(self, rank: int) -> bool:
        """Return whether a seat that is not over begins with `rank`."""
        return rank in self._seats

    def place(self, rank: int) -> SeatPlace:
        """Return the seat that begins with `rank`, and is not over."""
        return self._seats[rank]

    def seats(self) -> tuple[tuple[int, SeatPlace], ...]:
        """Return first rank and place of each seat that is not over, by rank."""
        return tuple(self._seats.items())

    def seat_of(self, rank: int) -> tuple[int, SeatPlace] | None:
        """Return first rank and place of the seat that has `rank`; None if it is over."""
        first = self._firsts[bisect_right(self._firsts, rank) - 1]
        return (first, self._seats[first]) if first in self._seats else None

    def machine_with(self, rank: int) -> str | None:
        """Return the machine of the seat that has `rank`, over or not; None: none has it."""
        number = bisect_right(self._firsts, rank) - 1
        return self.places[number].machine if number < len(self.places) else None

    def phase_of(self, rank: int) -> Phase | None:
        """Return how far the claim of the seat that begins with `rank` is; None: not known."""
        return self._answers.get(rank)

    @property
    def is_over(self) -> bool:
        """Whether all its seats are."""
        return not self._seats

    @property
    def is_ending(self) -> bool:
        """Whether the end of a seat has decided, so that the others are stopped."""
        return self.ends.verdict is not None

    @property
    def phase(self) -> Phase:
        """How far all its machines may go now."""
        if not self.is_decided:
            return Phase.HELD
        if self._confirmed < len(self.places) or (0 in self._seats and 0 not in self._answers):
            return Phase.CONFIRMED  # the first machine tells the port for all
        return Phase.STARTED

    @property
    def is_held(self) -> bool:
        """Whether all its machines hold their seats."""
        return len(self._answers) == len(self.places)

    @property
    def unanswered(self) -> list[str]:
        """The machines that have not answered at all."""
        return [place.machine for rank, place in self._seats.items() if rank not in self._answers]

    def answered(self, rank: int, phase: Phase, port: int = 0) -> None:
        """Note the phase that a machine has stored for its seat."""
        before = self._answers.get(rank)
        self._answers[rank] = phase if before is None else max(phase, before)
        if phase is Phase.STARTED:
            self.has_begun()
        elif phase is Phase.CONFIRMED and before in (None, Phase.HELD):
            self._confirmed = min(self._confirmed + 1, len(self.places))
        if port and not rank:
            self.port = port

    def has_begun(self) -> None:
        """Note that a machine has the start: all had confirmed before that was sent."""
        self._confirmed = len(self.places)

    def note_end(self, result: AttemptResult, spec: JobSpec, *, has_run: bool) -> None:
        """Note the end of a seat; `has_run`: a rank of the attempt is known to have run."""
        del self._seats[result.attempt.rank]
        if result.elapsed_s > 0.0:
            self.has_begun()
        self.ends.add(result, spec, has_run=has_run)
