"""A store that forgets everything with its process, and otherwise gives back what it was given."""

from __future__ import annotations

from collections.abc import Iterable

from iriai.model.account import Account
from iriai.model.claim import Claim
from iriai.model.ids import AttemptId
from iriai.model.records import (
    AttemptResult,
    ClaimsDropped,
    ClaimStored,
    Drained,
    Incarnated,
    JobAccepted,
    JobEvent,
    JobFinished,
    LedgerRow,
    Record,
    Resumed,
    Snapshot,
)
from iriai.model.stored import StoredJob, StoredState


class MemoryStore:
    """What a machine would find again when it comes up."""

    def __init__(self) -> None:
        self.accepted: dict[int, JobAccepted] = {}
        self.events: dict[int, list[JobEvent]] = {}
        self.finished: dict[int, JobFinished] = {}
        self.results: dict[AttemptId, AttemptResult] = {}
        self.claims: dict[AttemptId, Claim] = {}
        self.ledger: dict[Account, LedgerRow] = {}
        self.incarnation = 0
        self.drained: Drained | None = None

    def write(self, records: Iterable[Record]) -> None:
        """Keep the records of one turn: all of them, or none."""
        for record in records:
            match record:
                case JobAccepted():
                    assert record.number not in self.accepted, "a job number was given out twice"
                    self.accepted[record.number] = record
                case JobEvent():
                    self._event(record)
                case JobFinished():
                    self.finished[record.number] = record
                case AttemptResult():
                    self.results.setdefault(record.attempt, record)
                case ClaimStored(claim):
                    self.claims[claim.attempt] = claim
                case ClaimsDropped(attempts):
                    for attempt in attempts:
                        self.claims.pop(attempt, None)
                case LedgerRow():
                    self.ledger[record.account] = record
                case Incarnated(incarnation):
                    self.incarnation = incarnation
                case Drained():
                    self.drained = record
                case Resumed():
                    self.drained = None

    def _event(self, record: JobEvent) -> None:
        events = self.events.setdefault(record.number, [])
        if isinstance(record.change, Snapshot):
            events.clear()
        assert not events or events[-1].sequence < record.sequence, "events in order"
        events.append(record)

    def load(self) -> StoredState:
        """What a store gives back."""
        jobs = [
            StoredJob(number, job.spec, job.submitted_wall_s, list(self.events.get(number, ())))
            for number, job in self.accepted.items()
            if number not in self.finished
        ]
        return StoredState(
            self.incarnation,
            max(self.accepted, default=0) + 1,
            jobs,
            list(self.claims.values()),
            list(self.ledger.values()),
            self.drained,
        )
