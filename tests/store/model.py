"""What a store must remember, kept in dictionaries: records are taken one after the other."""

from __future__ import annotations

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
    ReservationsDropped,
    ReservationStored,
    Resumed,
    SectionSet,
    Snapshot,
)
from iriai.model.snapshot import StoredJob, StoredState


class Remembered:
    """Empty at first."""

    def __init__(self):
        self.accepted = {}
        self.events = {}
        self.causes = {}
        self.attempts = {}
        self.claims = {}
        self.ledger = {}
        self.payloads = {}
        self.incarnation = 0
        self.drained = None
        self.owner_word = None
        self.absences = AbsencesLearnt(b"")
        self.settings = {}
        self.reservations = {}
        self.last_reservation = 0
        self.bookings = {}

    def take(self, record):
        match record:
            case JobAccepted():
                self.accepted[record.number] = record
                for digest, content in record.payloads:
                    self.payloads.setdefault(digest, content)
            case JobEvent():
                kept = [] if isinstance(record.change, Snapshot) else self.events.get(record.number)
                self.events[record.number] = [*(kept or []), record]
            case JobFinished():
                self.causes[record.number] = record.cause
            case AttemptResult():
                _, *key, _, _ = record.attempt
                self.attempts.setdefault(tuple(key), record)
            case ClaimStored():
                self.claims[str(record.claim.attempt)] = record.claim
            case ClaimsDropped():
                for attempt in record.attempts:
                    self.claims.pop(str(attempt), None)
            case LedgerRow():
                self.ledger[record.account] = record
            case Incarnated():
                self.incarnation = record.incarnation
            case Drained():
                self.drained = record
            case Resumed():
                self.drained = None
            case OwnerWordGiven() | AbsencesLearnt():
                self._of_owner(record)
            case SectionSet():
                self.settings[record.section, record.name] = record
            case _:
                self._of_reservations(record)

    def _of_reservations(self, record):
        match record:
            case ReservationStored(reservation):
                self.reservations[reservation.number] = reservation
                self.last_reservation = max(self.last_reservation, reservation.number)
            case ReservationsDropped(numbers):
                self.last_reservation = max(self.last_reservation, *numbers)
                for number in numbers:
                    self.reservations.pop(number, None)
            case BookingStored(booking):
                self.bookings[str(booking.reservation)] = booking
            case BookingsDropped(reservations):
                for each in reservations:
                    self.bookings.pop(str(each), None)

    def _of_owner(self, record):
        if isinstance(record, AbsencesLearnt):
            self.absences = record
        else:
            self.owner_word = record if record.word else None

    def state(self):
        """What `load` must give back."""
        return StoredState(
            incarnation=self.incarnation,
            next_number=max(self.accepted, default=0) + 1,
            jobs=[
                StoredJob(number, record.spec, record.submitted_wall_s, self.events.get(number, []))
                for number, record in sorted(self.accepted.items())
                if number not in self.causes
            ],
            claims=[claim for _, claim in sorted(self.claims.items())],
            ledger=[row for _, row in sorted(self.ledger.items())],
            drained=self.drained,
            settings=[row for _, row in sorted(self.settings.items())],
            owner_word=self.owner_word,
            absences=self.absences,
            reservations=[each for _, each in sorted(self.reservations.items())],
            next_reservation=self.last_reservation + 1,
            bookings=[each for _, each in sorted(self.bookings.items())],
        )
