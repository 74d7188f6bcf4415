"""Simulated tasks: their work (duration, CPU, memory, end), and the process that does it."""

from __future__ import annotations

from math import inf
from operator import itemgetter
from typing import NamedTuple

from iriai.model.ids import Account, AttemptId
from iriai.model.job import JobSpec, end_by_itself
from iriai.model.resources import Resources
from iriai.model.state import EndCause
from iriai.model.submission import Layout
from iriai.model.time_slices import Cycles
from iriai.model.usage import Usage

End = tuple[EndCause, int | None, int | None]
"""Cause, exit code and signal."""
SUCCESS: End = (EndCause.COMPLETED, 0, None)
FAILURE: End = (EndCause.FAILED, 1, None)
_first = itemgetter(0)
KILLED = 9
TERMINATED = 15
"""Signals that end a task."""


class Work(NamedTuple):
    """The behaviour of a task, if nothing ends it earlier."""

    run_s: float = 10.0
    """On a machine of speed 1."""
    end: End = SUCCESS
    stubborn: bool = False
    """It does not listen when it is asked to end: it goes on, and is killed after its grace."""
    cpu_part: float = 1.0
    """Of each of its cpus, how much it uses."""
    memory_bytes_per_s: float = 0.0
    """How fast its memory grows; beyond what it claimed, if that is any, it is ended."""
    spread: float = 0.0
    """The part of `run_s` by which the longest of several seats takes longer."""
    saves: int = 0
    """Its first attempts, so many, end by themselves when it has saved itself, if its job says with
    which exit code."""

    def saved(self, attempt: AttemptId, spec: JobSpec) -> Work:
        """Return what an attempt does."""
        if spec.checkpoint_exit is None or attempt.attempt > self.saves:
            return self
        cause, _ = end_by_itself(spec, spec.checkpoint_exit, self.run_s)
        return self._replace(end=(cause, spec.checkpoint_exit, None))

    def usage(self, spec: JobSpec, elapsed_s: float) -> Usage:
        """Return the usage after `elapsed_s`."""
        cpu_s = elapsed_s * spec.resources.cpus * self.cpu_part
        return Usage(cpu_s, int(elapsed_s * self.memory_bytes_per_s))

    def outcome(self, spec: JobSpec, speed: float) -> tuple[float, End]:
        """Return the run time on a machine and the end: by itself or by a limit."""
        ends: list[tuple[float, End]] = [(self.run_s / speed, self.end)]
        rate = spec.resources.cpus * self.cpu_part
        if spec.cpu_limit_s is not None and rate > 0.0:
            ends.append((spec.cpu_limit_s / rate, (EndCause.CPU_LIMIT, None, KILLED)))
        if spec.resources.memory_bytes and self.memory_bytes_per_s > 0.0:
            full_s = spec.resources.memory_bytes / self.memory_bytes_per_s
            ends.append((full_s, (EndCause.MEMORY_LIMIT, None, KILLED)))
        return min(ends, key=_first)


def plain_job(
    account: Account, resources: Resources, limit_s: float | None, tasks: int = 1
) -> JobSpec:
    """Return a job of one or more tasks, with a time limit and nothing else."""
    array = ((1, tasks, 1),) if tasks > 1 else ((0, 0, 1),)
    user = account.user
    return JobSpec(account, user, "job", ("true",), "/", resources, array, tasks > 1, limit_s)


class Works:
    """The work of each task."""

    def __init__(self) -> None:
        self.default = Work()
        self._of_jobs: dict[tuple[str, int], Work] = {}

    def give(self, home: str, number: int, work: Work) -> None:
        """Set the work of the tasks of a job."""
        self._of_jobs[home, number] = work

    def of(self, attempt: AttemptId, spec: JobSpec) -> Work:
        """Return the work of an attempt, or of a seat of one.

        With a spread seats take different times, and one fails: the first. Where only that runs a
        command, the others wait for what it starts there.
        """
        work = self._of_jobs.get((attempt.home, attempt.number), self.default)
        if not attempt.rank:
            return work
        if spec.layout is Layout.FIRST:
            return work._replace(run_s=inf, end=SUCCESS)
        if not work.spread:
            return work
        run_s = work.run_s * (1.0 + attempt.rank % 5 / 4 * work.spread)
        return work._replace(run_s=run_s, end=SUCCESS)


class TurnModel(NamedTuple):
    """The turns of a process, counted from a moment of the world on."""

    cycles: Cycles
    """In the time of the world."""
    mask: int
    since_s: float

    def since(self, now_s: float) -> TurnModel:
        """Return the same, counted from now on."""
        return self._replace(since_s=now_s)

    def is_turn(self, now_s: float) -> bool:
        """Return whether it is its turn."""
        return self.cycles.is_turn(self.mask, now_s)

    def away_s(self, until_s: float) -> float:
        """Return for how long it was not its turn."""
        return self.cycles.away_s(self.mask, self.since_s, until_s)

    def after_s(self, nominal_s: float) -> float:
        """Return the moment for one that counts as if it were always its turn."""
        if nominal_s <= self.since_s:
            return nominal_s
        return self.cycles.after_turn_s(self.mask, self.since_s, nominal_s - self.since_s)


class ProcessModel:
    """A process that ends by itself, or is asked to end and killed after its grace."""

    def __init__(
        self, attempt: AttemptId, spec: JobSpec, work: Work, started_s: float, speed: float
    ) -> None:
        self.attempt = attempt
        self.spec = spec
        self.work = work
        self.started_s = started_s
        run_s, self._own = work.saved(attempt, spec).outcome(spec, speed)
        self.own_end_s = started_s + run_s
        """When it ends if nobody ends it."""
        self.end_s, self.end = self.own_end_s, self._own
        """When and how it ends, its lease apart."""
        self.lease_s: float | None = None
        self.lease_end_s = inf
        """When it must be over, whatever else; no later than this unless the launcher sleeps."""
        self._asked_s = self._stop_s = inf
        """When it is first asked to end, and when it does so or is killed."""
        self._cause = EndCause.LOST
        self._signal = KILLED
        self.frozen_since_s: float | None = None
        """None: it is not frozen."""
        self._frozen_s = 0.0
        """How long it was frozen before that."""
        self._turns: TurnModel | None = None
        """None: it takes no turns, or is being ended."""
        self._away_s = 0.0
        """How long it was not its turn, before `_turns` counts."""
        if spec.time_limit_s is not None and spec.time_limit_s < run_s:
            self.ask(EndCause.TIME_LIMIT, spec.kill_grace_s, started_s + spec.time_limit_s)

    @property
    def due_s(self) -> float:
        """The time of its end, as far as known."""
        return min(self.lease_end_s, self.end_s)

    def ask(self, cause: EndCause, grace_s: float, at_s: float) -> None:
        """Ask the process to end; a stubborn one is killed when the grace is over.

        The first cause stays; a later request can only shorten the grace.
        """
        if self.frozen_since_s is not None:  # who is to end must be able to
            self.thaw(at_s)
        if self._turns is not None:
            self._count_turns(at_s)
            self._turns = None
        if at_s < self._asked_s:
            self._asked_s, self._cause = at_s, cause
        if grace_s <= 0.0:
            stop_s, signal = at_s, KILLED
        elif self.work.stubborn:
            stop_s, signal = at_s + grace_s, KILLED
        else:
            stop_s, signal = at_s, TERMINATED
        if stop_s < self._stop_s:
            self._stop_s, self._signal = stop_s, signal
        self._foresee()

    def is_asked(self, now_s: float) -> bool:
        """Return whether it was asked to end."""
        return self.frozen_since_s is None and self._in_turn_s(self._asked_s) <= now_s

    def frozen_s(self, until_s: float) -> float:
        """Return how long it was frozen in all, until then."""
        if self.frozen_since_s is None:
            return self._frozen_s
        return self._frozen_s + max(0.0, until_s - self.frozen_since_s)

    def away_s(self, until_s: float) -> float:
        """Return how long it was not its turn, until then; the time frozen apart."""
        if self._turns is None or self.frozen_since_s is not None:
            return self._away_s
        return self._away_s + self._turns.away_s(min(until_s, self._in_turn_s(self._asked_s)))

    def ran_s(self, until_s: float) -> float:
        """Return how long it has run until then, without the time in which it stood."""
        stood_s = self.frozen_s(until_s) + self.away_s(until_s)
        return max(0.0, until_s - self.started_s - stood_s)

    def executes(self, now_s: float) -> bool:
        """Return whether it is its turn and nothing keeps it frozen."""
        if self.frozen_since_s is not None:
            return False
        return self._turns is None or self.is_asked(now_s) or self._turns.is_turn(now_s)

    def freeze(self, now_s: float) -> None:
        """Freeze it: it does nothing, and reaches no limit of time."""
        if self.frozen_since_s is None:
            if self._turns is not None:
                self._count_turns(now_s)
            self.frozen_since_s, self.end_s = now_s, inf

    def thaw(self, now_s: float) -> None:
        """Let it go on where it was: it ends by so much later."""
        if self.frozen_since_s is None:
            return
        since_s, self.frozen_since_s = self.frozen_since_s, None
        lasted_s = max(0.0, now_s - since_s)
        self._frozen_s += lasted_s
        self._put_off(lasted_s, since_s)
        if self._turns is not None:
            self._turns = self._turns.since(now_s)
        self._foresee()

    @property
    def turns(self) -> TurnModel | None:
        """Return the rows in which it runs; None: in all."""
        return self._turns

    def take_turns(self, cycles: Cycles | None, mask: int, now_s: float) -> None:
        """Run in its rows alone from now on, unless it was asked to end; None: whenever it can."""
        if self._turns is not None:
            self._count_turns(now_s)
        if self.is_asked(now_s):
            return
        self._turns = None if cycles is None else TurnModel(cycles, mask, now_s)
        if self.frozen_since_s is None:
            self._foresee()

    def strand(self, now_s: float) -> None:
        """Stand from now on, if it takes turns: there is no launcher any more."""
        if self._turns is not None and not self.is_asked(now_s):
            self.freeze(now_s)

    def end_untended_s(self, since_s: float) -> float:
        """Return its end if the launcher has been away since then for ever."""
        if self.frozen_since_s is not None:
            return inf
        if self._turns is not None and self._in_turn_s(self._asked_s) > since_s:
            return self._turns.after_s(self.own_end_s)
        return self.end_s if self._in_turn_s(self._stop_s) <= since_s else self.own_end_s

    def did_nothing(self, lasted_s: float) -> None:
        """Account for a machine that slept for so long; its limits of time went on."""
        if self.frozen_since_s is None:
            self.own_end_s += lasted_s
            self._foresee()

    def slept(self, since_s: float, now_s: float) -> None:
        """Account for a launcher that was stopped from `since_s` until now."""
        if self._in_turn_s(self._stop_s) <= since_s or self.frozen_since_s is not None:
            return
        if self._turns is not None:  # in turns all the time, whatever the limits are
            was_asked = self._in_turn_s(self._asked_s) <= since_s
            self._count_turns(since_s if was_asked else now_s, beyond_limits=True)
            if self._asked_s <= now_s:
                self._turns = None
        if self.own_end_s <= now_s:
            if self._asked_s > since_s:
                self._asked_s = inf
            self._stop_s = inf
        elif since_s < self._asked_s <= now_s:
            self._stop_s += now_s - self._asked_s
        elif self._stop_s <= now_s:
            self._stop_s = now_s
        self._foresee()

    def _count_turns(self, now_s: float, *, beyond_limits: bool = False) -> None:
        """Take into account the turns that it has had until now; at its limit they are over."""
        turns = self._turns
        if turns is None or self.frozen_since_s is not None:
            return
        asked_s = inf if beyond_limits else self._in_turn_s(self._asked_s)
        away_s = turns.away_s(min(now_s, asked_s))
        self._away_s += away_s
        self._put_off(away_s, turns.since_s)
        self._turns = turns.since(now_s) if now_s < asked_s else None

    def _put_off(self, by_s: float, since_s: float) -> None:
        """Take into account that it stood."""
        self.own_end_s += by_s
        if self._asked_s > since_s:  # at its limit of time
            self._asked_s += by_s
            self._stop_s += by_s

    def _in_turn_s(self, nominal_s: float) -> float:
        """Return the moment for one that counts as if it were always its turn."""
        if self._turns is None or nominal_s == inf:
            return nominal_s
        if nominal_s <= self._asked_s:
            return self._turns.after_s(nominal_s)
        return self._turns.after_s(self._asked_s) + (nominal_s - self._asked_s)

    def _foresee(self) -> None:
        if self._stop_s < self.own_end_s:
            end_s, self.end = self._stop_s, (self._cause, None, self._signal)
        else:
            cause, exit_code, signal = self._own
            if self._asked_s < self.own_end_s:
                cause = self._cause
            end_s, self.end = self.own_end_s, (cause, exit_code, signal)
        self.end_s = end_s if self._turns is None else self._in_turn_s(end_s)


LOST: End = (EndCause.LOST, None, None)
"""Nobody saw how it ended."""
