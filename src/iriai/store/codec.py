"""Values that are stored whole, as bytes: msgpack.

A job's spec is a map by field name without what has its default, and so are claims, reservations
and bookings; a change is an array that begins with its tag. So fields may be appended (with a
default) and tags added without a migration; to rename, reorder or retype one takes a migration that
rewrites the rows.

Pruning: deletes finished jobs, their events and attempts, and unused payloads.

A few hundred rows at a time, each as a record among others in a transaction of the writer: a job
of a million tasks goes in many of them, its own row last. What the node counted for accounts
stays, and so does the highest job number ever given out.
"""

from __future__ import annotations

import sqlite3

import msgspec

from iriai.model.claim import Claim
from iriai.model.job import JobSpec
from iriai.model.records import Bucket, Change, HistoryDropped, Refund
from iriai.model.reservation import Booking, Reservation

encode = msgspec.msgpack.Encoder().encode
"""Bytes of a spec, a claim, a change, a reservation or a booking."""
decode_spec = msgspec.msgpack.Decoder(JobSpec).decode
decode_claim = msgspec.msgpack.Decoder(Claim).decode
decode_reservation = msgspec.msgpack.Decoder(Reservation).decode
decode_booking = msgspec.msgpack.Decoder(Booking).decode
decode_change = msgspec.msgpack.Decoder[Change](Change).decode

encode_text = msgspec.json.Encoder().encode
"""JSON, whose text is stored."""
decode_settings = msgspec.json.Decoder(tuple[tuple[str, ...], ...]).decode
decode_buckets = msgspec.json.Decoder(tuple[Bucket, ...]).decode
decode_refunds = msgspec.json.Decoder(tuple[Refund, ...]).decode

LAST_NUMBER = "last_number"
LAST_RESERVATION = "last_reservation"
HISTORY_FROM_MS = "history_from_ms"


def drop_history(cursor: sqlite3.Cursor, record: HistoryDropped) -> None:
    """Delete the job that `record` names, within the transaction of `cursor`."""
    number = record.number
    row = cursor.execute(_FINISHED, (number,)).fetchone()
    if row is None:
        return  # there is no such job, or it has not finished, or someone is still to be told
    for statement in (_SEATS, _ATTEMPTS):
        cursor.execute(statement, (number, record.attempts_max))
        if cursor.rowcount >= record.attempts_max:
            return  # there may be more; it is asked for again
    ended_wall_s, spec = row
    digests = decode_spec(spec).text_digests
    cursor.executemany(_USE, [(digest, number) for digest in digests])
    cursor.executemany(_PAYLOAD, [(digest,) for digest in digests])
    for statement in (_EVENTS, _JOB):
        cursor.execute(statement, (number,))
    cursor.execute(RAISE, (LAST_NUMBER, number))
    cursor.execute(RAISE, (HISTORY_FROM_MS, int(ended_wall_s * 1000)))


_FINISHED = """
SELECT finished_wall_s, spec FROM jobs WHERE number = ? AND finished_wall_s IS NOT NULL
AND number NOT IN (SELECT job FROM notices)
"""
_ATTEMPTS = """
DELETE FROM attempts WHERE (job, task_index, attempt) IN
(SELECT job, task_index, attempt FROM attempts WHERE job = ? LIMIT ?)
"""
_SEATS = """
DELETE FROM seats WHERE (job, task_index, attempt, first_rank) IN
(SELECT job, task_index, attempt, first_rank FROM seats WHERE job = ? LIMIT ?)
"""
_EVENTS = "DELETE FROM events WHERE job = ?"
_USE = "DELETE FROM payload_uses WHERE digest = ? AND job = ?"
_JOB = "DELETE FROM jobs WHERE number = ?"
_PAYLOAD = """
DELETE FROM payloads WHERE digest = ?1
AND NOT EXISTS (SELECT 1 FROM payload_uses WHERE digest = ?1)
"""
RAISE = """
INSERT INTO meta (name, value) VALUES (?, ?)
ON CONFLICT (name) DO UPDATE SET value = max(value, excluded.value)
"""
