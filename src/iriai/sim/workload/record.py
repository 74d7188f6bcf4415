"""The record of each job of a log after a simulation."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from iriai.sim.workload.log import Log, LogJob


class Record(NamedTuple):
    """One job and when it ran; seconds since the log began."""

    job: LogJob
    start_s: float
    end_s: float

    @property
    def wait_s(self) -> float:
        """Seconds from the submission to the start."""
        return self.start_s - self.job.submit_s


def with_starts(log: Log, starts_s: Iterable[float]) -> list[Record]:
    """Return the records of the jobs of `log`, which started at `starts_s`, in its order."""
    return [
        Record(job, start_s, start_s + job.run_s)
        for job, start_s in zip(log.jobs, starts_s, strict=True)
    ]


Progress = Callable[[int, float], None]
"""Called now and then, with how many jobs have been submitted and the second of the log."""


def no_progress(_jobs: int, _now_s: float) -> None:
    """Ignore the progress."""
