"""Records with defaults: a test says only what it is about."""

from __future__ import annotations

from iriai.model.claim import Claim
from iriai.model.ids import Account, AttemptId, ReservationId
from iriai.model.job import JobSpec
from iriai.model.records import (
    Attempted,
    AttemptResult,
    BookingStored,
    Change,
    ClaimStored,
    JobAccepted,
    JobEvent,
    JobFinished,
    LedgerRow,
    ReservationStored,
)
from iriai.model.reservation import Booking, Reservation, ReservationTerms
from iriai.model.resources import Resources
from iriai.model.state import EndCause
from iriai.model.usage import Usage

ANN = Account("lab", "ann")
BOB = Account("guests", "bob")
NOW = 1_700_000_000.0


def spec(account=ANN, **changes):
    fields = {
        "user": account.user,
        "name": "work.py",
        "command": ("python3", "work.py"),
        "working_directory": "/home/ann",
    }
    return JobSpec(account, **(fields | changes))


def accepted(number, account=ANN, wall_s=NOW, payloads=(), **changes):
    return JobAccepted(number, spec(account, **changes), wall_s, payloads)


def event(number, sequence, change: Change | None = None, wall_s=NOW):
    return JobEvent(number, sequence, wall_s, change or Attempted(((0, sequence),), "ume"), "c1")


def finished(number, cause=EndCause.COMPLETED, wall_s=NOW):
    return JobFinished(number, wall_s, cause)


def result(number, index=0, attempt=1, cause=EndCause.COMPLETED, ended_wall_s=NOW, **changes):
    fields = {
        "machine": "ume",
        "exit_code": 0 if cause is EndCause.COMPLETED else 1,
        "signal": None,
        "usage": Usage(1.5, 1 << 20, 10, 20),
        "started_wall_s": ended_wall_s - 2,
        "ended_wall_s": ended_wall_s,
        "elapsed_s": 2.0,
        "charge_s": 2.0,
    }
    return AttemptResult(AttemptId("ume", number, index, attempt), cause=cause, **fields | changes)


def claim(number, index=0, attempt=1, account=ANN):
    attempt_id = AttemptId("ume", number, index, attempt)
    return ClaimStored(Claim(attempt_id, account, account.user, Resources(2), None, 1.0, NOW))


def counter(account=ANN, value=1.0):
    return LedgerRow(account, value, NOW, 1, 2.0)


def reserved(number, account=ANN, **changes):
    terms = ReservationTerms(account, account.user, NOW + 60, NOW + 360, 2, Resources(4))
    return ReservationStored(Reservation(number, 1, terms, **changes))


def booked(number, home="ume", **changes):
    span = (NOW + 60, NOW + 360)
    return BookingStored(Booking(ReservationId(home, number), 1, ANN, *span, **changes))
