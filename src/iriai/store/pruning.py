"""Pruning: deletes finished jobs, their events and attempts, and unused payloads.

A few hundred rows at a time, each as a record among others in a transaction of the writer: a job of
a million tasks goes in many of them, its own row last. What the node counted for accounts stays,
and so does the highest job number ever given out.
"""

from __future__ import annotations

import sqlite3

from iriai.model.job import JobSpec
from iriai.model.records import HistoryDropped
from iriai.store.codec import decode_spec

LAST_NUMBER = "last_number"
HISTORY_FROM_MS = "history_from_ms"


def drop_history(cursor: sqlite3.Cursor, record: HistoryDropped) -> None:
    """Delete what `record` says, within the transaction of `cursor`."""
    number = record.number
    row = cursor.execute(_FINISHED, (number,)).fetchone()
    if row is None:
        return  # there is no such job, or it has not finished, or someone is still to be told
    cursor.execute(_ATTEMPTS, (number, record.attempts_max))
    if cursor.rowcount >= record.attempts_max:
        return  # there may be more; it is asked for again
    ended_wall_s, spec = row
    digests = digests_of(decode_spec(spec))
    cursor.executemany(_USE, [(digest, number) for digest in digests])
    cursor.executemany(_PAYLOAD, [(digest,) for digest in digests])
    for statement in (_EVENTS, _JOB):
        cursor.execute(statement, (number,))
    cursor.execute(_RAISE, (LAST_NUMBER, number))
    cursor.execute(_RAISE, (HISTORY_FROM_MS, int(ended_wall_s * 1000)))


def digests_of(spec: JobSpec) -> tuple[str, ...]:
    """The payloads that a job needs, each once."""
    return tuple(filter(None, dict.fromkeys((spec.environment, spec.script, spec.stdin))))


_FINISHED = """
SELECT finished_wall_s, spec FROM jobs WHERE number = ? AND finished_wall_s IS NOT NULL
AND number NOT IN (SELECT job FROM notices)
"""
_ATTEMPTS = """
DELETE FROM attempts WHERE (job, task_index, attempt) IN
(SELECT job, task_index, attempt FROM attempts WHERE job = ? LIMIT ?)
"""
_EVENTS = "DELETE FROM events WHERE job = ?"
_USE = "DELETE FROM payload_uses WHERE digest = ? AND job = ?"
_JOB = "DELETE FROM jobs WHERE number = ?"
_PAYLOAD = """
DELETE FROM payloads WHERE digest = ?1
AND NOT EXISTS (SELECT 1 FROM payload_uses WHERE digest = ?1)
"""
_RAISE = """
INSERT INTO meta (name, value) VALUES (?, ?)
ON CONFLICT (name) DO UPDATE SET value = max(value, excluded.value)
"""
