"""Simulated tasks: their work (duration, CPU, memory, end), and the process that does it."""

from __future__ import annotations

from math import inf
from operator import itemgetter
from typing import NamedTuple

from iriai.model.ids import Account, AttemptId
from iriai.model.job import JobSpec
from iriai.model.resources import Resources
from iriai.model.state import EndCause
from iriai.model.submission import Layout
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


class ProcessModel:
    """A process that ends by itself, or is asked to end and killed after its grace."""

    def __init__(
        self, attempt: AttemptId, spec: JobSpec, work: Work, started_s: float, speed: float
    ) -> None:
        self.attempt = attempt
        self.spec = spec
        self.work = work
        self.started_s = started_s
        run_s, self._own = work.outcome(spec, speed)
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
        return self.frozen_since_s is None and self._asked_s <= now_s

    def frozen_s(self, until_s: float) -> float:
        """Return how long it was frozen in all, until then."""
        if self.frozen_since_s is None:
            return self._frozen_s
        return self._frozen_s + max(0.0, until_s - self.frozen_since_s)

    def ran_s(self, until_s: float) -> float:
        """Return how long it has run until then, the time frozen apart."""
        return max(0.0, until_s - self.started_s - self.frozen_s(until_s))

    def freeze(self, now_s: float) -> None:
        """Freeze it: it does nothing, and reaches no limit of time."""
        if self.frozen_since_s is None:
            self.frozen_since_s, self.end_s = now_s, inf

    def thaw(self, now_s: float) -> None:
        """Let it go on where it was: it ends by so much later."""
        if self.frozen_since_s is None:
            return
        since_s, self.frozen_since_s = self.frozen_since_s, None
        lasted_s = max(0.0, now_s - since_s)
        self._frozen_s += lasted_s
        self.own_end_s += lasted_s
        if self._asked_s > since_s:  # at its limit of time
            self._asked_s += lasted_s
            self._stop_s += lasted_s
        self._foresee()

    def end_untended_s(self, since_s: float) -> float:
        """Return its end if the launcher has been away since then for ever."""
        if self.frozen_since_s is not None:
            return inf
        return self.end_s if self._stop_s <= since_s else self.own_end_s

    def slept(self, since_s: float, now_s: float) -> None:
        """Account for a launcher that was stopped from `since_s` until now."""
        if self._stop_s <= since_s or self.frozen_since_s is not None:
            return
        if self.own_end_s <= now_s:
            if self._asked_s > since_s:
                self._asked_s = inf
            self._stop_s = inf
        elif since_s < self._asked_s <= now_s:
            self._stop_s += now_s - self._asked_s
        elif self._stop_s <= now_s:
            self._stop_s = now_s
        self._foresee()

    def _foresee(self) -> None:
        if self._stop_s < self.own_end_s:
            self.end_s, self.end = self._stop_s, (self._cause, None, self._signal)
            return
        cause, exit_code, signal = self._own
        if self._asked_s < self.own_end_s:
            cause = self._cause
        self.end_s, self.end = self.own_end_s, (cause, exit_code, signal)


LOST: End = (EndCause.LOST, None, None)
"""Nobody saw how it ended."""
