"""A store in memory, which loses what was not synced, and its writer: what leaves when.

A turn's records are one transaction. A commit makes durable everything that was written before it,
in order; a crash keeps what was committed and any number of the turns after it, from the first.
As in the daemon the writer has one commit under way at a time, and records that are not urgent wait
a second for others to ride with.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from math import inf

from iriai.machine.outbox import Outbox
from iriai.model.claim import Claim
from iriai.model.ids import Account, AttemptId, ReservationId, series_of
from iriai.model.records import (
    AbsencesLearnt,
    AttemptResult,
    BookingsDropped,
    BookingStored,
    ClaimsDropped,
    ClaimStored,
    Drained,
    Incarnated,
    JobAccepted,
    JobEvent,
    JobFinished,
    LedgerRow,
    OwnerWordGiven,
    Record,
    ReservationsDropped,
    ReservationStored,
    Resumed,
    SeatEnded,
    SectionSet,
    Snapshot,
)
from iriai.model.reservation import Booking, Reservation
from iriai.model.snapshot import StoredJob, StoredState, waited_for
from iriai.model.state import EndCause


class StoreModel:
    """The durable state of a machine."""

    def __init__(self) -> None:
        self.accepted: dict[int, JobAccepted] = {}
        self.events: dict[int, list[JobEvent]] = {}
        self.finished: dict[int, JobFinished] = {}
        self.results: dict[AttemptId, AttemptResult] = {}
        self.seats: dict[AttemptId, AttemptResult] = {}
        """Of attempts with several ranks."""
        self.claims: dict[AttemptId, Claim] = {}
        self.ledger: dict[Account, LedgerRow] = {}
        self.incarnation = 0
        self.drained: Drained | None = None
        self.owner_word: OwnerWordGiven | None = None
        self.absences = AbsencesLearnt(b"")
        self.settings: dict[tuple[str, str], SectionSet] = {}
        self.reservations: dict[int, Reservation] = {}
        self.last_reservation = 0
        self.bookings: dict[ReservationId, Booking] = {}
        self.unsynced: deque[Sequence[Record]] = deque()
        """Turns that were written and not committed, oldest first."""

    def write(self, records: Iterable[Record]) -> None:
        """Write and commit the records of one turn."""
        if self.unsynced:
            self.commit(len(self.unsynced))
        self._keep(records)

    def append(self, records: Sequence[Record]) -> None:
        """Write the records of one turn without a commit."""
        self.unsynced.append(records)

    def commit(self, turns: int) -> None:
        """Make the first `turns` of those written durable."""
        for _ in range(turns):
            self._keep(self.unsynced.popleft())

    def crash(self, kept: int) -> None:
        """Lose the turns that were not committed, but for the first `kept`."""
        self.commit(kept)
        self.unsynced.clear()

    def load(self) -> StoredState:
        """Return the state as a store would load it without a crash."""
        self_ = self if not self.unsynced else self._all()
        jobs = [
            StoredJob(number, job.spec, job.submitted_wall_s, list(self_.events.get(number, ())))
            for number, job in self_.accepted.items()
            if number not in self_.finished
        ]
        return StoredState(
            self_.incarnation,
            max(self_.accepted, default=0) + 1,
            jobs,
            list(self_.claims.values()),
            list(self_.ledger.values()),
            self_.drained,
            dict(self_.ends(jobs)),
            [self_.settings[each] for each in sorted(self_.settings)],
            self_.owner_word,
            self_.absences,
            [self_.reservations[each] for each in sorted(self_.reservations)],
            self_.last_reservation + 1,
            [self_.bookings[each] for each in sorted(self_.bookings, key=str)],
        )

    def _all(self) -> StoreModel:
        """Return a copy in which everything is committed."""
        copy = StoreModel()
        copy.accepted = dict(self.accepted)
        copy.events = {number: list(events) for number, events in self.events.items()}
        copy.finished, copy.results = dict(self.finished), dict(self.results)
        copy.seats = dict(self.seats)
        copy.claims, copy.ledger = dict(self.claims), dict(self.ledger)
        copy.incarnation, copy.drained = self.incarnation, self.drained
        copy.settings, copy.owner_word = dict(self.settings), self.owner_word
        copy.absences = self.absences
        copy.reservations, copy.bookings = dict(self.reservations), dict(self.bookings)
        copy.last_reservation = self.last_reservation
        for records in self.unsynced:
            copy._keep(records)
        return copy

    def _keep(self, records: Iterable[Record]) -> None:
        for record in records:
            if type(record) is LedgerRow:
                self.ledger[record.account] = record
            elif type(record) is ClaimStored:
                self.claims[record.claim.attempt] = record.claim
            elif type(record) is JobEvent:
                self._event(record)
            else:
                self._keep_rare(record)

    def _keep_rare(self, record: Record) -> None:
        match record:
            case JobAccepted():
                assert record.number not in self.accepted, "a job number was given out twice"
                self.accepted[record.number] = record
            case JobFinished():
                self.finished[record.number] = record
            case AttemptResult():
                self.results.setdefault(record.attempt, record)
            case ClaimsDropped(attempts):
                for attempt in attempts:
                    self.claims.pop(attempt, None)
            case Incarnated(incarnation):
                self.incarnation = incarnation
            case Drained():
                self.drained = record
            case Resumed():
                self.drained = None
            case OwnerWordGiven(word):
                self.owner_word = None if word is None else record
            case AbsencesLearnt():
                self.absences = record
            case SectionSet(section, name):
                self.settings[section, name] = record
            case ReservationStored() | ReservationsDropped() | BookingStored() | BookingsDropped():
                self._keep_reserved(record)

    def _keep_reserved(
        self, record: ReservationStored | ReservationsDropped | BookingStored | BookingsDropped
    ) -> None:
        match record:
            case ReservationStored(reservation):
                self.reservations[reservation.number] = reservation
                self.last_reservation = max(self.last_reservation, series_of(reservation.number))
            case ReservationsDropped(numbers):
                self.last_reservation = max(self.last_reservation, *map(series_of, numbers))
                for number in numbers:
                    self.reservations.pop(number, None)
            case BookingStored(booking):
                self.bookings[booking.reservation] = booking
            case BookingsDropped(reservations):
                for each in reservations:
                    self.bookings.pop(each, None)

    def _event(self, record: JobEvent) -> None:
        events = self.events.setdefault(record.number, [])
        if isinstance(record.change, Snapshot):
            events.clear()
        elif isinstance(record.change, SeatEnded):
            for result, _ in record.change.results:
                self.seats.setdefault(result.attempt, result)
        assert not events or events[-1].sequence < record.sequence, "events in order"
        events.append(record)

    def ends(self, jobs: list[StoredJob]) -> Iterator[tuple[tuple[int, int | None], EndCause]]:
        """Yield the ends of the jobs and tasks that `jobs` may wait for."""
        for each in waited_for(jobs):
            if each.task is None and each.number in self.finished:
                yield (each.number, None), self.finished[each.number].cause
            for attempt, result in self.results.items() if each.task is not None else ():
                if (attempt.number, attempt.index) == (each.number, each.task):
                    yield (each.number, each.task), result.cause


PATIENT_WRITE_S = 1.0
"""How long records that are not urgent may wait, as in the daemon's writer."""


class Commits:
    """The writer of one store: one commit at a time. Times are those of the world."""

    def __init__(self, store: StoreModel, sync_s: float) -> None:
        self._store = store
        self._sync_s = sync_s
        """How long a commit takes; 0: nothing is ever unsynced."""
        self.forget()

    def forget(self) -> None:
        """Forget all writes under way: the daemon died."""
        self.outbox = Outbox()
        """What leaves the machine."""
        self._written = self._durable = 0
        self._covers = 0
        """Up to where the commit under way goes."""
        self._done_s = self._begin_s = inf
        self.next_s = inf
        """The time of the next `step`."""

    def write(self, records: Sequence[Record], is_urgent: bool, now_s: float) -> None:
        """Write the records of one turn."""
        if self._sync_s <= 0.0:
            self._store.write(records)
            return
        self._store.append(records)
        self._written += 1
        if is_urgent:
            self.outbox.close_gate(self._written)
        self._begin_s = min(self._begin_s, now_s if is_urgent else now_s + PATIENT_WRITE_S)
        if self._done_s == inf and self._begin_s <= now_s:
            self._begin(now_s)
        self._plan()

    def step(self, now_s: float) -> None:
        """End the commit that is due, and begin the next."""
        if self._done_s <= now_s:
            self._store.commit(self._covers - self._durable)
            self._durable = self._covers
            self._done_s = inf
            self.outbox.durable(self._durable)
        if self._done_s == inf and self._begin_s <= now_s:
            self._begin(now_s)
        self._plan()

    def _plan(self) -> None:
        self.next_s = self._begin_s if self._done_s == inf else self._done_s

    def _begin(self, now_s: float) -> None:
        self._covers = self._written
        self._done_s = now_s + self._sync_s
        self._begin_s = inf
