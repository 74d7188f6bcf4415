"""Behaviour of simulated tasks: duration, CPU, memory, end."""

from __future__ import annotations

from operator import itemgetter
from typing import NamedTuple

from iriai.model.ids import Account, AttemptId
from iriai.model.job import JobSpec
from iriai.model.resources import Resources
from iriai.model.state import EndCause
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

    def of(self, attempt: AttemptId) -> Work:
        """Return the work of an attempt."""
        return self._of_jobs.get((attempt.home, attempt.number), self.default)
