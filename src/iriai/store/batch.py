"""The records of one transaction, sorted into rows."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter

from iriai.model.records import (
    AttemptResult,
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
    Record,
    Resumed,
    Snapshot,
)
from iriai.store import schema
from iriai.store.codec import encode, encode_buckets, encode_factors
from iriai.store.pruning import digests_of, drop_history
from iriai.store.statements import (
    Row,
    alteration_of_jobs,
    deletion_of_claims,
    deletion_of_drain,
    deletion_of_events,
    deletion_of_notices,
    insertion,
    insertion_of_missing,
    marking_of_finished,
    replacement,
)


class WriteSet:
    """Rows by table.

    Of values that replace each other the last one stands, as if the records had been written one
    after the other.
    """

    def __init__(self, records: Iterable[Record]) -> None:
        self.payloads: list[Row] = []
        self.payload_uses: list[Row] = []
        self.notices: dict[int, bool] = {}
        """By job: whether it is due."""
        self.history: list[HistoryDropped] = []
        self.jobs: list[Row] = []
        self.events: list[Row] = []
        self.snapshots: list[Row] = []
        self.attempts: list[Row] = []
        self.finished: list[Row] = []
        self.altered: list[Row] = []
        self.claims: dict[str, bytes | None] = {}
        """None: dropped."""
        self.ledger: dict[tuple[str, str], Row] = {}
        self.meta: dict[str, int] = {}
        self.drain: Drained | Resumed | None = None
        """None: nothing was said of it."""
        for record in records:
            self._sort(record)

    def _sort(self, record: Record) -> None:
        match record:  # the most frequent first
            case ClaimStored():
                self._claim(record)
            case AttemptResult():
                self._result(record)
            case JobEvent():
                self._event(record)
            case ClaimsDropped():
                self._drop(record)
            case LedgerRow():
                self._count(record)
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
            case Drained() | Resumed():
                self.drain = record

    def _finish(self, record: JobFinished) -> None:
        self.finished.append((record.number, record.wall_s, record.cause.value))
        if record.spec is not None:
            self.altered.append((record.number, record.spec.name, encode(record.spec)))

    def _accept(self, record: JobAccepted) -> None:
        spec = record.spec
        group, user = spec.account
        self.payloads.extend(record.payloads)
        self.payload_uses += [(digest, record.number) for digest in digests_of(spec)]
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

    def _result(self, record: AttemptResult) -> None:
        _home, number, index, attempt = record.attempt
        usage = record.usage
        self.attempts.append(
            (
                number,
                index,
                attempt,
                record.machine,
                record.cause.value,
                record.exit_code,
                record.signal,
                usage.cpu_s,
                usage.memory_peak_bytes,
                usage.read_bytes,
                usage.written_bytes,
                record.started_wall_s,
                record.ended_wall_s,
                record.elapsed_s,
                record.charge_s,
                record.message,
                encode_factors(record.factors),
            )
        )

    def _claim(self, record: ClaimStored) -> None:
        self.claims[str(record.claim.attempt)] = encode(record.claim)

    def _drop(self, record: ClaimsDropped) -> None:
        for attempt in record.attempts:
            self.claims[str(attempt)] = None

    def _count(self, record: LedgerRow) -> None:
        self.ledger[record.account] = (
            *record.account,
            record.counter,
            record.epoch_wall_s,
            record.runs,
            record.run_s,
            record.advance,
            record.bucket_s,
            encode_buckets(record.buckets),
        )


_NO_END = (None, None, None)


BOUND_BYTES_MAX = 64 << 10
"""Of texts of one batch that may stay in prepared statements."""


_content_of: Callable[[Row], bytes] = itemgetter(1)
_spec_of: Callable[[Row], bytes] = itemgetter(5)


class BatchWriter:
    """The prepared statements, and the order they go in."""

    def __init__(self) -> None:
        self._payloads = insertion_of_missing(schema.payloads)
        self._payload_uses = insertion(schema.payload_uses)
        self._notices = insertion_of_missing(schema.notices)
        self._told = deletion_of_notices()
        self._jobs = insertion(schema.jobs)
        self._events = insertion(schema.events)
        self._snapshots = deletion_of_events()
        # A second result of one attempt is dropped: the first has been charged.
        self._attempts = insertion_of_missing(schema.attempts)
        self._finished = marking_of_finished()
        self._altered = alteration_of_jobs()
        self._claims = replacement(schema.claims)
        self._dropped = deletion_of_claims()
        self._ledger = replacement(schema.ledger)
        self._meta = replacement(schema.meta)
        self._drain = replacement(schema.drain)
        self._resumed = deletion_of_drain()

    def write(self, cursor: sqlite3.Cursor, batch: WriteSet) -> None:
        """Execute `batch` within the transaction of `cursor`."""
        self._write_payloads(cursor, batch.payloads)
        self._payload_uses.run(cursor, batch.payload_uses)
        are_large = sum(map(len, map(_spec_of, batch.jobs))) > 16 * BOUND_BYTES_MAX
        self._jobs.run(cursor, batch.jobs, one_by_one=are_large)
        self._events.run(cursor, batch.events)
        if batch.snapshots:
            cursor.executemany(self._snapshots, batch.snapshots)
        # Attempts first: marking a job finished counts those that succeeded.
        self._attempts.run(cursor, batch.attempts)
        self._finished.run(cursor, batch.finished)
        self._altered.run(cursor, batch.altered)
        self._write_claims(cursor, batch.claims)
        self._ledger.run(cursor, list(batch.ledger.values()))
        self._meta.run(cursor, list(batch.meta.items()))
        self._write_notices(cursor, batch.notices)
        for record in batch.history:
            drop_history(cursor, record)
        match batch.drain:
            case Drained(reason, by, since_wall_s):
                self._drain.run(cursor, [(1, reason, by, since_wall_s)])
            case Resumed():
                cursor.execute(self._resumed)

    def _write_payloads(self, cursor: sqlite3.Cursor, payloads: list[Row]) -> None:
        self._payloads.run(cursor, payloads)
        if sum(map(len, map(_content_of, payloads))) > BOUND_BYTES_MAX:
            # A statement keeps what it was given last: now nothing, for keys that are there.
            self._payloads.run(cursor, [(digest, b"") for digest, _ in payloads])

    def _write_notices(self, cursor: sqlite3.Cursor, notices: dict[int, bool]) -> None:
        self._notices.run(cursor, [(number,) for number, is_due in notices.items() if is_due])
        told = [(number,) for number, is_due in notices.items() if not is_due]
        if told:
            cursor.executemany(self._told, told)

    def _write_claims(self, cursor: sqlite3.Cursor, claims: dict[str, bytes | None]) -> None:
        kept: Sequence[Row] = [item for item in claims.items() if item[1] is not None]
        self._claims.run(cursor, kept)
        if len(kept) < len(claims):
            dropped = [(attempt,) for attempt, claim in claims.items() if claim is None]
            self._dropped.run(cursor, dropped)
