"""A snapshot of the store for a machine that starts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from iriai.model.claim import Claim
from iriai.model.job import Dependency, JobSpec
from iriai.model.records import (
    AbsencesLearnt,
    Altered,
    Change,
    Drained,
    JobEvent,
    LedgerRow,
    OwnerWordGiven,
    SectionSet,
    Snapshot,
)
from iriai.model.reservation import Booking, Reservation
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
    """The incarnation of the node; 0 if it never ran."""
    next_number: int
    """The home's next job number: larger than any ever used, also by jobs long deleted."""
    jobs: list[StoredJob]
    claims: list[Claim]
    ledger: list[LedgerRow]
    drained: Drained | None = None
    """The reason why the node accepts no claims; None: it is not drained."""
    ended: Mapping[tuple[int, int | None], EndCause] = {}
    """The ends of targets, (job, task or None for all of it), on which a stored job depends."""
    settings: Sequence[SectionSet] = ()
    """What operators set while the daemon ran, by section and name."""
    owner_word: OwnerWordGiven | None = None
    """What the machine's owner said last; None: nothing, or it was taken back."""
    absences: AbsencesLearnt = AbsencesLearnt(b"")
    """What the node has learnt of when the owner is away."""
    reservations: Sequence[Reservation] = ()
    """The home's, by number; those that were over for long are forgotten."""
    next_reservation: int = 1
    """The number of the home's next reservation: larger than any ever used."""
    bookings: Sequence[Booking] = ()
    """What the node keeps of reservations."""


def waited_for(jobs: list[StoredJob]) -> Iterator[Dependency]:
    """Yield all dependencies of `jobs` since their last snapshot, which may still be open."""
    for job in jobs:
        yield from job.spec.after
        for event in job.events:
            yield from _named_by(event.change)


def _named_by(change: Change) -> tuple[Dependency, ...]:
    match change:
        case Altered(_, now, _):
            after = now.after
            return after if isinstance(after, tuple) else ()
        case Snapshot(_, after):
            return after
        case _:
            return ()
