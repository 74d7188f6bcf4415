"""What a store gives back when a machine comes up."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from iriai.model.claim import Claim
from iriai.model.job import JobSpec
from iriai.model.records import Drained, JobEvent, LedgerRow
from iriai.model.state import EndCause


class StoredJob(msgspec.Struct):
    """A job that had not finished, with its events in order of their sequence."""

    number: int
    spec: JobSpec
    submitted_wall_s: float
    events: list[JobEvent]


class StoredState(msgspec.Struct):
    """Everything durable that cores start from."""

    incarnation: int
    """Of the node; 0 where it never ran."""
    next_number: int
    """The home's next job number: larger than any ever given out, also to jobs long deleted."""
    jobs: list[StoredJob]
    claims: list[Claim]
    ledger: list[LedgerRow]
    ended: Mapping[tuple[int, int | None], EndCause] = {}
    """How those have ended, (job, task or None for all of it), that a stored job waits for."""
    drained: Drained | None = None
    """Why the node takes nothing; None: it does."""
