"""The tables of the store as SQL, and the numbered migrations that lead to them.

`PRAGMA user_version` holds how many migrations a database has had.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from iriai.model.problem import Refused
from iriai.store import sqlite

_FIRST = """
-- Single numbers: `incarnation` of the node; `last_number`, the highest job number that may have
-- been given out, where no job of it is left; `history_from_ms`, the latest end of a deleted job.
CREATE TABLE meta (
    name TEXT NOT NULL PRIMARY KEY,
    value INTEGER NOT NULL
) WITHOUT ROWID;

-- Environments, scripts, standard input: long or secret texts, once each.
CREATE TABLE payloads (
    digest TEXT NOT NULL PRIMARY KEY,
    content BLOB NOT NULL
);

-- The jobs that need each payload; a payload is deleted with the last of them.
CREATE TABLE payload_uses (
    digest TEXT NOT NULL,
    job INTEGER NOT NULL,
    PRIMARY KEY (digest, job)
) WITHOUT ROWID;

-- One row for each submission. `group_name` and `user_name` are the account, `owner` the Unix user;
-- the last three columns are empty until the last task has ended. `succeeded` counts tasks.
CREATE TABLE jobs (
    number INTEGER NOT NULL PRIMARY KEY,
    group_name TEXT NOT NULL,
    user_name TEXT NOT NULL,
    owner TEXT NOT NULL,
    job_name TEXT NOT NULL,
    spec BLOB NOT NULL,
    submitted_wall_s REAL NOT NULL,
    finished_wall_s REAL,
    cause TEXT,
    succeeded INTEGER
);

-- Serves both what is loaded at start (those that are empty) and listings, newest first.
CREATE INDEX jobs_by_finish ON jobs (finished_wall_s);

-- The events of each job; their replay is its state.
CREATE TABLE events (
    job INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    wall_s REAL NOT NULL,
    change BLOB NOT NULL,
    story TEXT NOT NULL,
    PRIMARY KEY (job, sequence)
) WITHOUT ROWID;

-- What paper 000 (section 5.1) keeps of each execution, and what else is asked about later.
-- `factors`: what charges were multiplied by, as JSON: [[factor, seconds], ...]; empty where all of
-- it was at peak.
CREATE TABLE attempts (
    job INTEGER NOT NULL,
    task_index INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    machine TEXT NOT NULL,
    cause TEXT NOT NULL,
    exit_code INTEGER,
    signal INTEGER,
    cpu_s REAL NOT NULL,
    memory_peak_bytes INTEGER NOT NULL,
    read_bytes INTEGER NOT NULL,
    written_bytes INTEGER NOT NULL,
    started_wall_s REAL NOT NULL,
    ended_wall_s REAL NOT NULL,
    elapsed_s REAL NOT NULL,
    charge_s REAL NOT NULL,
    message TEXT NOT NULL,
    factors TEXT,
    PRIMARY KEY (job, task_index, attempt)
) WITHOUT ROWID;

-- For sums over a period, which would read the whole history without it.
CREATE INDEX attempts_by_end ON attempts (ended_wall_s);

-- Each attempt with the names of its job.
CREATE VIEW history AS
SELECT attempts.*, jobs.group_name, jobs.user_name, jobs.owner, jobs.job_name, jobs.submitted_wall_s
FROM attempts JOIN jobs ON jobs.number = attempts.job;

-- Claims that the node has granted and must keep, by the id of the attempt.
CREATE TABLE claims (
    attempt TEXT NOT NULL PRIMARY KEY,
    claim BLOB NOT NULL
) WITHOUT ROWID;

-- The node's counters of each account.
CREATE TABLE ledger (
    group_name TEXT NOT NULL,
    user_name TEXT NOT NULL,
    counter REAL NOT NULL,
    epoch_wall_s REAL NOT NULL,
    runs INTEGER NOT NULL,
    run_s REAL NOT NULL,
    advance REAL NOT NULL,
    bucket_s REAL NOT NULL,
    buckets TEXT,
    PRIMARY KEY (group_name, user_name)
) WITHOUT ROWID;

-- One row (`id` 1) while the node is drained.
CREATE TABLE drain (
    id INTEGER NOT NULL PRIMARY KEY,
    reason TEXT NOT NULL,
    by_whom TEXT NOT NULL,
    since_wall_s REAL NOT NULL
);

-- Finished jobs whose users have yet to be notified.
CREATE TABLE notices (
    job INTEGER NOT NULL PRIMARY KEY
);
"""

_SEATS = """
-- Attempts with several ranks: each seat, named by its first rank. The row of the attempt has sums.
CREATE TABLE seats (
    job INTEGER NOT NULL,
    task_index INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    first_rank INTEGER NOT NULL,
    ranks INTEGER NOT NULL,
    machine TEXT NOT NULL,
    cause TEXT NOT NULL,
    exit_code INTEGER,
    signal INTEGER,
    cpu_s REAL NOT NULL,
    memory_peak_bytes INTEGER NOT NULL,
    read_bytes INTEGER NOT NULL,
    written_bytes INTEGER NOT NULL,
    started_wall_s REAL NOT NULL,
    ended_wall_s REAL NOT NULL,
    elapsed_s REAL NOT NULL,
    charge_s REAL NOT NULL,
    message TEXT NOT NULL,
    factors TEXT,
    PRIMARY KEY (job, task_index, attempt, first_rank)
) WITHOUT ROWID;
"""

_QUEUES = """
-- What operators of a machine without a cluster set of queues; `settings` are JSON.
CREATE TABLE queues (
    number INTEGER NOT NULL PRIMARY KEY,
    settings TEXT NOT NULL,
    by_whom TEXT NOT NULL,
    wall_s REAL NOT NULL
);
"""

_SETTINGS = """
-- What operators of a machine without a cluster set; `name` is that of a queue or pool, else empty,
-- `settings` are JSON: key, value and who set it, of old rows without the last.
CREATE TABLE settings (
    section TEXT NOT NULL,
    name TEXT NOT NULL,
    settings TEXT NOT NULL,
    by_whom TEXT NOT NULL,
    wall_s REAL NOT NULL,
    PRIMARY KEY (section, name)
) WITHOUT ROWID;
INSERT INTO settings
SELECT 'queues', CAST(number AS TEXT), settings, by_whom, wall_s FROM queues;
DROP TABLE queues;
"""

_OWNER_WORD = """
-- One row (`id` 1) while a word of the machine's owner is kept: `here` or `away`; `until_wall_s` is
-- empty where it holds until it is taken back.
CREATE TABLE owner_word (
    id INTEGER NOT NULL PRIMARY KEY,
    word TEXT NOT NULL,
    until_wall_s REAL,
    vacates INTEGER NOT NULL
);
"""

_REFUNDS = """
-- What was returned of an account's charges, by days, as JSON.
ALTER TABLE ledger ADD COLUMN refunds TEXT;
"""

_OWNER_ABSENCES = """
-- One row (`id` 1) once the node has learnt when the machine's owner is away: counts by hour of the
-- week, packed.
CREATE TABLE owner_absences (
    id INTEGER NOT NULL PRIMARY KEY,
    counts BLOB NOT NULL
);
"""

_RETURNED = """
-- What was returned of the charge of an attempt, or of a seat.
ALTER TABLE attempts ADD COLUMN returned_s REAL NOT NULL DEFAULT 0;
ALTER TABLE seats ADD COLUMN returned_s REAL NOT NULL DEFAULT 0;
"""

_RESERVATIONS = """
-- Reservations of the home, whole; those that have been over for long are deleted. The highest
-- number of those is `last_reservation` in `meta`.
CREATE TABLE reservations (
    number INTEGER NOT NULL PRIMARY KEY,
    reservation BLOB NOT NULL
);

-- What the node keeps of reservations, whole, by the id of the reservation.
CREATE TABLE bookings (
    reservation TEXT NOT NULL PRIMARY KEY,
    booking BLOB NOT NULL
) WITHOUT ROWID;
"""

MIGRATIONS: tuple[str, ...] = (
    *(_FIRST, _SEATS, _QUEUES, _SETTINGS),
    *(_OWNER_WORD, _REFUNDS, _OWNER_ABSENCES, _RETURNED),
    _RESERVATIONS,
)
"""The SQL that makes version n of version n - 1. Append; one that was released never changes."""


def usable_version(connection: sqlite3.Connection, path: Path) -> int:
    """Return how many migrations the database at `path` has had.

    Raises:
        Problem: it is not ours, damaged, or of a newer iriai.
    """
    if not sqlite.is_ours(connection):
        raise foreign(path)
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if not version:
        raise sqlite.damaged(path, "it does not name its schema")
    if version > len(MIGRATIONS):
        raise Refused(
            "state-newer",
            f"{path} is of a newer iriai (schema {version}, this one knows {len(MIGRATIONS)})",
            "use that version, or another state directory",
        )
    return int(version)


def foreign(path: Path) -> Refused:
    """Return the refusal of a file that is no database of ours."""
    return Refused(
        "state-foreign",
        f"{path} is not a database of iriai",
        "move it away, or use another state directory",
    )


def migrate(connection: sqlite3.Connection, version: int) -> None:
    """Run the migrations after `version`: all of them, or none where one raises sqlite3.Error."""
    missing = "".join(MIGRATIONS[version:])
    if not missing:
        return
    try:
        connection.executescript(
            f"BEGIN IMMEDIATE;{missing}PRAGMA user_version={len(MIGRATIONS)};COMMIT;"
        )
    except sqlite3.Error:
        # SQLite has rolled back some failures by itself.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
