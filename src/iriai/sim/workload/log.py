"""A workload log: jobs submitted on one machine with their times, and records of their runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from iriai.model.ids import Account


class LogJob(NamedTuple):
    """One job of a log; times in seconds since the log began."""

    number: int
    """Its number in the log; unique."""
    submit_s: float
    run_s: float
    """More than 0, and not above the estimate."""
    width: int
    """Processors, all on the one machine."""
    estimate_s: float
    """What its user stated as its limit."""
    account: Account


class LogReservation(NamedTuple):
    """A reservation that is asked for beside the jobs; times in seconds since the log began."""

    number: int
    """Its place among all, from 1."""
    asked_s: float
    start_s: float
    """Not before it is asked for."""
    end_s: float
    width: int
    """Processors."""
    account: Account


@dataclass(frozen=True, slots=True)
class Log:
    """Jobs in the order (submit, number), and the machine that they were submitted on."""

    name: str
    processors: int
    jobs: Sequence[LogJob]
    began_wall_s: float = 0.0
    """Seconds since 1970 at second 0 of the log; 0: not known."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """What was left out or changed while reading, and how often; nothing that happened never."""
    reservations: Sequence[LogReservation] = ()
    """In the order in which they are asked for."""


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
