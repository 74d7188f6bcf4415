"""The past of a home: rows of finished jobs and attempts, and what selects them."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from iriai.model.charge_factors import Factors, decode_factors
from iriai.model.job import JobSpec, task_count
from iriai.model.state import EndCause


class Selection(msgspec.Struct, frozen=True):
    """A selection of jobs or attempts; None is no condition."""

    owner: str | None = None
    """The Unix user who submitted."""
    group: str | None = None
    user: str | None = None
    """The user of the account."""
    name: str | None = None
    """A shell pattern of job names."""
    job: int | None = None
    task_index: int | None = None
    """The task of attempts; jobs have none."""
    cause: EndCause | None = None
    """The end of the job or attempt."""
    since_wall_s: float | None = None
    """The earliest end, inclusive."""
    until_wall_s: float | None = None
    """The latest end, exclusive."""


class JobRecord(msgspec.Struct, frozen=True):
    """A job as it is stored. The last three are None until it has finished."""

    number: int
    spec: JobSpec
    submitted_wall_s: float
    finished_wall_s: float | None
    cause: EndCause | None
    succeeded: int | None
    """Tasks that completed; all others ended in another way."""

    def all_causes(self, attempted: dict[EndCause, int]) -> dict[EndCause, int]:
        """Return its tasks by cause: those of `attempted`, and those cancelled before a start."""
        unstarted = task_count(self.spec.array) - sum(attempted.values())
        cancelled = attempted.get(EndCause.CANCELLED, 0) + max(0, unstarted)
        return attempted | {EndCause.CANCELLED: cancelled} if cancelled else attempted


class HistoryRow(NamedTuple):
    """One attempt, with the names of its job: the history of paper 000, section 5.1."""

    job: int
    task_index: int
    attempt: int
    machine: str
    cause: EndCause
    exit_code: int | None
    signal: int | None
    cpu_s: float
    memory_peak_bytes: int
    read_bytes: int
    written_bytes: int
    started_wall_s: float
    ended_wall_s: float
    elapsed_s: float
    charge_s: float
    message: str
    encoded_factors: str | None
    returned_s: float
    group_name: str
    user_name: str
    owner: str
    job_name: str
    submitted_wall_s: float

    @property
    def factors(self) -> Factors:
        """The factors of the charges of its time; empty if all of it was at peak."""
        return decode_factors(self.encoded_factors)


class SeatRow(NamedTuple):
    """One seat of an attempt with several ranks."""

    job: int
    task_index: int
    attempt: int
    first_rank: int
    ranks: int
    machine: str
    cause: EndCause
    exit_code: int | None
    signal: int | None
    cpu_s: float
    memory_peak_bytes: int
    read_bytes: int
    written_bytes: int
    started_wall_s: float
    ended_wall_s: float
    elapsed_s: float
    charge_s: float
    message: str
    encoded_factors: str | None
    returned_s: float

    @property
    def factors(self) -> Factors:
        """The factors of the charges of its time; empty if all of it was at peak."""
        return decode_factors(self.encoded_factors)


class UsageTotal(NamedTuple):
    """Usage of one account, or of one job of it. All attempts count, repeated ones too."""

    group: str
    user: str
    job: int | None
    job_name: str
    """Empty if the sum is over an account."""
    tasks: int
    """Tasks that have ended with an attempt."""
    failed: int
    """Those of `tasks` that did not complete."""
    cpu_s: float
    elapsed_s: float
    charge_s: float
    memory_peak_bytes: int
    """The highest of any attempt."""
    waited_s: float
    """Mean over `tasks`, from submission to the start of the attempt that ended the task."""
    returned_s: float
