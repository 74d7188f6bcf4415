"""The records of one transaction, sorted into rows."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from operator import itemgetter

from msgspec.structs import astuple

from iriai.model.charge_factors import encode_factors
from iriai.model.ids import series_of
from iriai.model.records import (
    AbsencesLearnt,
    AttemptResult,
    BookingsDropped,
    BookingStored,
    ClaimsDropped,
    ClaimStored,
    Drained,
    HistoryDropped,
    Incarnated,
    JobAccepted,
    JobEvent,
    JobFinished,
    LedgerRow,
    NoticeDue,
    NoticesDropped,
    OwnerWordGiven,
    Record,
    ReservationsDropped,
    ReservationStored,
    Resumed,
    SeatEnded,
    SectionSet,
    Snapshot,
)
from iriai.model.state import EndCause
from iriai.store.codec import LAST_RESERVATION, RAISE, drop_history, encode, encode_text

Row = Sequence[object]
"""Values in the order of the parameters of a statement."""

ROWS_MAX = 32
"""Rows in one statement. More gain nothing measurable and cost memory, for each statement is kept
prepared; powers of two fill any number with few."""


class BulkStatement:
    """One statement that takes any number of rows.

    Made from SQL in which `{rows}` stands for them: `INSERT INTO meta VALUES {rows}`.

    Each step into SQLite gives up Python's lock, and getting it back from a busy thread costs up
    to a switch interval. One statement for 32 rows instead of 32 for one row makes that bearable,
    and is faster by itself.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._texts: dict[int, str] = {}

    def run(self, cursor: sqlite3.Cursor, rows: Sequence[Row], *, one_by_one: bool = False) -> None:
        """Execute the statement for `rows`, in order.

        Each prepared statement keeps the rows that it was given last; `one_by_one`: only one row.
        """
        start, left = 0, len(rows)
        if left == 1:
            cursor.execute(self._texts.get(1) or self._of_chunk(rows), rows[0])
            return
        while left:
            size = 1 if one_by_one else min(ROWS_MAX, 1 << left.bit_length() - 1)
            chunk = rows[start : start + size]
            text = self._texts.get(size) or self._of_chunk(chunk)
            cursor.execute(text, tuple(chain.from_iterable(chunk)))
            start, left = start + size, left - size

    def _of_chunk(self, chunk: Sequence[Row]) -> str:
        group = f"({', '.join('?' * len(chunk[0]))})"
        text = self._text.replace("{rows}", ", ".join([group] * len(chunk)))
        self._texts[len(chunk)] = text
        return text


# Values in the order of the columns of each table (`schema`).
_PAYLOADS = BulkStatement("INSERT INTO payloads VALUES {rows} ON CONFLICT DO NOTHING")
_PAYLOAD_USES = BulkStatement("INSERT INTO payload_uses VALUES {rows}")
_NOTICES = BulkStatement("INSERT INTO notices VALUES {rows} ON CONFLICT DO NOTHING")
_JOBS = BulkStatement("INSERT INTO jobs VALUES {rows}")
_EVENTS = BulkStatement("INSERT INTO events VALUES {rows}")
# A second result of one attempt is dropped: the first has been charged.
_ATTEMPTS = BulkStatement("INSERT INTO attempts VALUES {rows} ON CONFLICT DO NOTHING")
_SEATS = BulkStatement("INSERT INTO seats VALUES {rows} ON CONFLICT DO NOTHING")
# Where a claim is as it was nothing is written, unlike by REPLACE.
_CLAIMS = BulkStatement(
    "INSERT INTO claims VALUES {rows}"
    " ON CONFLICT (attempt) DO UPDATE SET claim = excluded.claim WHERE claim != excluded.claim"
)
_LEDGER = BulkStatement("REPLACE INTO ledger VALUES {rows}")
_META = BulkStatement("REPLACE INTO meta VALUES {rows}")
_DRAIN = "REPLACE INTO drain VALUES (1, ?, ?, ?)"
_SETTINGS = BulkStatement("REPLACE INTO settings VALUES {rows}")
_DROPPED = BulkStatement(
    "WITH dropped (attempt) AS (VALUES {rows})"
    " DELETE FROM claims WHERE attempt IN (SELECT attempt FROM dropped)"
)
# Counts `succeeded`, once for each job.
_FINISHED = BulkStatement(
    "WITH ended (number, wall_s, cause) AS (VALUES {rows})"
    " UPDATE jobs SET finished_wall_s = ended.wall_s, cause = ended.cause, succeeded ="
    " (SELECT count(*) FROM attempts"
    f" WHERE attempts.job = ended.number AND attempts.cause = '{EndCause.COMPLETED}')"
    " FROM ended WHERE jobs.number = ended.number"
)
# Of finished jobs that were altered before they ended.
_ALTERED = BulkStatement(
    "WITH altered (number, name, spec) AS (VALUES {rows})"
    " UPDATE jobs SET job_name = altered.name, spec = altered.spec"
    " FROM altered WHERE jobs.number = altered.number"
)
_DELETE_EARLIER_EVENTS = "DELETE FROM events WHERE job = ? AND sequence < ?"
_DELETE_NOTICE = "DELETE FROM notices WHERE job = ?"
_DELETE_DRAIN = "DELETE FROM drain"
_OWNER_WORD = "INSERT OR REPLACE INTO owner_word VALUES (1, ?, ?, ?)"
_DELETE_OWNER_WORD = "DELETE FROM owner_word"
_ABSENCES = "INSERT OR REPLACE INTO owner_absences VALUES (1, ?)"
_RESERVATIONS = BulkStatement("REPLACE INTO reservations VALUES {rows}")
_DELETE_RESERVATION = "DELETE FROM reservations WHERE number = ?"
_BOOKINGS = BulkStatement("REPLACE INTO bookings VALUES {rows}")
_DELETE_BOOKING = "DELETE FROM bookings WHERE reservation = ?"

OfMachine = Drained | Resumed | OwnerWordGiven | AbsencesLearnt
"""Records of the machine itself, of which the last stands."""
OfReservations = ReservationStored | ReservationsDropped | BookingStored | BookingsDropped


class WriteSet:
    """Rows by table.

    Of values that replace each other the last one stands, as if the records had been written one
    after the other.
    """

    def __init__(self, records: Iterable[Record]) -> None:
        self.payloads: list[Row] = []
        self.payload_uses: list[Row] = []
        self.notices: dict[int, bool] = {}
        """Whether a notice is due, by job."""
        self.history: list[HistoryDropped] = []
        self.jobs: list[Row] = []
        self.events: list[Row] = []
        self.snapshots: list[Row] = []
        self.attempts: list[Row] = []
        self.seats: list[Row] = []
        self.finished: list[Row] = []
        self.altered: list[Row] = []
        self.claims: dict[str, bytes | None] = {}
        """The encoded claims by attempt; None if dropped."""
        self.ledger: dict[tuple[str, str], Row] = {}
        self.meta: dict[str, int] = {}
        self.has_rare = False
        """Whether there is any of the five that follow."""
        self.drain: Drained | Resumed | None = None
        """The last change of the drain; None if there was none."""
        self.owner_word: OwnerWordGiven | None = None
        """The last word of the machine's owner; None if there was none."""
        self.absences: AbsencesLearnt | None = None
        """What the node has learnt of its owner; None if there was nothing new."""
        self.reservations: dict[int, bytes | None] = {}
        """The encoded reservations by number; None if dropped."""
        self.bookings: dict[str, bytes | None] = {}
        """The encoded bookings by reservation; None if dropped."""
        self.settings: dict[tuple[str, str], Row] = {}
        for record in records:
            self._sort(record)

    def _sort(self, record: Record) -> None:
        match record:  # the most frequent first
            case ClaimStored():
                self.claims[str(record.claim.attempt)] = encode(record.claim)
            case AttemptResult():
                self.attempts.append(_row_of(record, record.attempt[1:4]))
            case JobEvent():
                self._event(record)
            case ClaimsDropped(attempts):
                self.claims.update(dict.fromkeys(map(str, attempts)))
            case LedgerRow():
                *counts, buckets, refunds = astuple(record)[1:]
                texts = map(_text_or_nothing, (buckets, refunds))
                self.ledger[record.account] = (*record.account, *counts, *texts)
            case JobAccepted():
                self._accept(record)
            case JobFinished():
                self._finish(record)
            case Incarnated():
                self.meta["incarnation"] = record.incarnation
            case NoticeDue(number):
                self.notices[number] = True
            case NoticesDropped(numbers):
                self.notices.update(dict.fromkeys(numbers, False))
            case HistoryDropped():
                self.history.append(record)
            case Drained() | Resumed() | OwnerWordGiven() | AbsencesLearnt():
                self._of_machine(record)
            case SectionSet(section, name, settings, by, wall_s):
                text = encode_text(settings).decode()
                self.settings[section, name] = (section, name, text, by, wall_s)
            case ReservationStored() | ReservationsDropped() | BookingStored() | BookingsDropped():
                self._of_reservations(record)

    def _of_reservations(self, record: OfReservations) -> None:
        self.has_rare = True
        match record:
            case ReservationStored(reservation):
                self.reservations[reservation.number] = encode(reservation)
            case ReservationsDropped(numbers):
                self.reservations.update(dict.fromkeys(numbers))
            case BookingStored(booking):
                self.bookings[str(booking.reservation)] = encode(booking)
            case BookingsDropped(reservations):
                self.bookings.update(dict.fromkeys(map(str, reservations)))

    def _of_machine(self, record: OfMachine) -> None:
        self.has_rare = True
        match record:
            case OwnerWordGiven():
                self.owner_word = record
            case AbsencesLearnt():
                self.absences = record
            case _:
                self.drain = record

    def _finish(self, record: JobFinished) -> None:
        self.finished.append((record.number, record.wall_s, record.cause.value))
        if record.spec is not None:
            self.altered.append((record.number, record.spec.name, encode(record.spec)))

    def _accept(self, record: JobAccepted) -> None:
        spec = record.spec
        group, user = spec.account
        self.payloads.extend(record.payloads)
        self.payload_uses += [(digest, record.number) for digest in spec.text_digests]
        submitted = record.submitted_wall_s
        self.jobs.append(
            (record.number, group, user, spec.user, spec.name, encode(spec), submitted, *_NO_END)
        )

    def _event(self, record: JobEvent) -> None:
        change = record.change
        self.events.append(
            (record.number, record.sequence, record.wall_s, encode(change), record.story)
        )
        if type(change) is Snapshot:
            self.snapshots.append((record.number, record.sequence))
        elif type(change) is SeatEnded:
            self.seats += [
                _row_of(result, (*result.attempt[1:5], ranks)) for result, ranks in change.results
            ]


def _text_or_nothing(items: tuple[object, ...]) -> str | None:
    return encode_text(items).decode() if items else None


def _row_of(record: AttemptResult, key: tuple[object, ...]) -> Row:
    # The columns stand in the order of the fields.
    _, machine, cause, exit_code, signal, usage, *ended, factors, returned_s = astuple(record)
    how = (machine, cause.value, exit_code, signal)
    return (*key, *how, *astuple(usage), *ended, encode_factors(factors), returned_s)


_NO_END = (None, None, None)

BOUND_BYTES_MAX = 64 << 10
"""Size of texts of one batch that may stay in prepared statements."""


_content_of: Callable[[Row], bytes] = itemgetter(1)
_spec_of: Callable[[Row], bytes] = itemgetter(5)


def write_batch(cursor: sqlite3.Cursor, batch: WriteSet) -> None:
    """Execute `batch` within the transaction of `cursor`."""
    if batch.jobs:
        _write_jobs(cursor, batch)
    if batch.events:
        _EVENTS.run(cursor, batch.events)
    if batch.snapshots:
        cursor.executemany(_DELETE_EARLIER_EVENTS, batch.snapshots)
    # Attempts first: marking a job finished counts those that succeeded.
    if batch.attempts:
        _ATTEMPTS.run(cursor, batch.attempts)
    if batch.seats:
        _SEATS.run(cursor, batch.seats)
    if batch.finished:
        _FINISHED.run(cursor, batch.finished)
        if batch.altered:
            _ALTERED.run(cursor, batch.altered)
    if batch.claims:
        _write_claims(cursor, batch.claims)
    if batch.ledger:
        _LEDGER.run(cursor, list(batch.ledger.values()))
    if batch.meta:
        _META.run(cursor, list(batch.meta.items()))
    if batch.notices:
        _write_notices(cursor, batch.notices)
    for record in batch.history:
        drop_history(cursor, record)
    if batch.settings:
        _SETTINGS.run(cursor, list(batch.settings.values()))
    if batch.has_rare:
        _write_reservations(cursor, batch.reservations)
        _write_bookings(cursor, batch.bookings)
        _write_said(cursor, batch)


def _write_said(cursor: sqlite3.Cursor, batch: WriteSet) -> None:
    """Write what operators and the owner have said of the machine, and what it has learnt."""
    if batch.absences is not None:
        cursor.execute(_ABSENCES, (batch.absences.counts,))
    drain, given = batch.drain, batch.owner_word
    if isinstance(drain, Drained):
        cursor.execute(_DRAIN, (drain.reason, drain.by, drain.since_wall_s))
    elif drain is not None:
        cursor.execute(_DELETE_DRAIN)
    if given is None:
        return
    if given.word is None:
        cursor.execute(_DELETE_OWNER_WORD)
    else:
        cursor.execute(_OWNER_WORD, (given.word.value, given.until_wall_s, given.vacates))


def _write_jobs(cursor: sqlite3.Cursor, batch: WriteSet) -> None:
    """Write jobs that were accepted, with their texts."""
    if batch.payloads:
        _write_payloads(cursor, batch.payloads)
    _PAYLOAD_USES.run(cursor, batch.payload_uses)
    are_large = sum(map(len, map(_spec_of, batch.jobs))) > 16 * BOUND_BYTES_MAX
    _JOBS.run(cursor, batch.jobs, one_by_one=are_large)


def _write_payloads(cursor: sqlite3.Cursor, payloads: list[Row]) -> None:
    _PAYLOADS.run(cursor, payloads)
    if sum(map(len, map(_content_of, payloads))) > BOUND_BYTES_MAX:
        # A statement keeps what it was given last: now nothing, for keys that are there.
        _PAYLOADS.run(cursor, [(digest, b"") for digest, _ in payloads])


def _write_notices(cursor: sqlite3.Cursor, notices: dict[int, bool]) -> None:
    _NOTICES.run(cursor, [(number,) for number, is_due in notices.items() if is_due])
    told = [(number,) for number, is_due in notices.items() if not is_due]
    if told:
        cursor.executemany(_DELETE_NOTICE, told)


def _write_claims(cursor: sqlite3.Cursor, claims: dict[str, bytes | None]) -> None:
    kept: Sequence[Row] = [item for item in claims.items() if item[1] is not None]
    if kept:
        _CLAIMS.run(cursor, kept)
    if len(kept) < len(claims):
        _DROPPED.run(cursor, [(attempt,) for attempt, claim in claims.items() if claim is None])


def _write_reservations(cursor: sqlite3.Cursor, reservations: dict[int, bytes | None]) -> None:
    """Write reservations, and delete those that were dropped; their numbers stay used."""
    kept: Sequence[Row] = [item for item in reservations.items() if item[1] is not None]
    _RESERVATIONS.run(cursor, kept)
    dropped = [number for number, content in reservations.items() if content is None]
    if dropped:
        cursor.executemany(_DELETE_RESERVATION, [(number,) for number in dropped])
        cursor.execute(RAISE, (LAST_RESERVATION, max(map(series_of, dropped))))


def _write_bookings(cursor: sqlite3.Cursor, bookings: dict[str, bytes | None]) -> None:
    kept: Sequence[Row] = [item for item in bookings.items() if item[1] is not None]
    _BOOKINGS.run(cursor, kept)
    dropped = [(reservation,) for reservation, content in bookings.items() if content is None]
    if dropped:
        cursor.executemany(_DELETE_BOOKING, dropped)
