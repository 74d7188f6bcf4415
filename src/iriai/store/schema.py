"""The tables of the store, as the newest migration leaves them.

Migrations are written out in full and never import this module: they describe the past, this the
present. A test holds the two together.
"""

from __future__ import annotations

from typing import TypeVar

from sqlalchemy import (
    BigInteger,
    Column,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
)
from sqlalchemy.types import TypeEngine

REVISION = "0005"
"""The newest migration. Revisions are numbers, so that a newer one is known as newer."""

metadata = MetaData()
T = TypeVar("T")

RowNumber = BigInteger().with_variant(Integer, "sqlite")
"""SQLite keys a table by its row number only where the type is called exactly INTEGER."""


def _column(name: str, kind: type[TypeEngine[T]]) -> Column[T]:
    return Column(name, kind, nullable=False)


meta = Table(
    "meta",
    metadata,
    Column("name", String, primary_key=True, nullable=False),
    _column("value", BigInteger),
    sqlite_with_rowid=False,
)
"""Single numbers: `incarnation` of the node; `last_number`, the highest job number that may have
been given out, where no job of it is left; `history_from_ms`, the latest end of a deleted job."""

payloads = Table(
    "payloads",
    metadata,
    Column("digest", String, primary_key=True, nullable=False),
    _column("content", LargeBinary),
)
"""Environments, scripts, standard input: long or secret texts, once each."""

jobs = Table(
    "jobs",
    metadata,
    Column("number", RowNumber, primary_key=True, autoincrement=False),
    _column("group_name", String),
    _column("user_name", String),
    _column("owner", String),
    _column("job_name", String),
    _column("spec", LargeBinary),
    _column("submitted_wall_s", Float),
    Column("finished_wall_s", Float),
    Column("cause", String),
    Column("succeeded", Integer),
)
"""One row for each submission. `group_name` and `user_name` are the account, `owner` the Unix user;
the last three columns are empty until the last task has ended. `succeeded` counts tasks."""

# Serves both what is loaded at start (those that are empty) and listings, newest first.
Index("jobs_by_finish", jobs.c.finished_wall_s)

events = Table(
    "events",
    metadata,
    _column("job", BigInteger),
    _column("sequence", Integer),
    _column("wall_s", Float),
    _column("change", LargeBinary),
    _column("story", String),
    PrimaryKeyConstraint("job", "sequence"),
    sqlite_with_rowid=False,
)
"""The events of each job; their replay is its state."""

attempts = Table(
    "attempts",
    metadata,
    _column("job", BigInteger),
    _column("task_index", Integer),
    _column("attempt", Integer),
    _column("machine", String),
    _column("cause", String),
    Column("exit_code", Integer),
    Column("signal", Integer),
    _column("cpu_s", Float),
    _column("memory_peak_bytes", BigInteger),
    _column("read_bytes", BigInteger),
    _column("written_bytes", BigInteger),
    _column("started_wall_s", Float),
    _column("ended_wall_s", Float),
    _column("elapsed_s", Float),
    _column("charge_s", Float),
    _column("message", String),
    Column("factors", String),
    PrimaryKeyConstraint("job", "task_index", "attempt"),
    sqlite_with_rowid=False,
)
"""What paper 000 (section 5.1) keeps of each execution, and what else is asked about later.

`factors`: what charges were multiplied by, as JSON: [[factor, seconds], ...]; empty where all of it
was at peak."""

# For sums over a period, which would read the whole history without it.
Index("attempts_by_end", attempts.c.ended_wall_s)

claims = Table(
    "claims",
    metadata,
    Column("attempt", String, primary_key=True, nullable=False),
    _column("claim", LargeBinary),
    sqlite_with_rowid=False,
)
"""Claims that the node has granted and must keep, by the id of the attempt."""

ledger = Table(
    "ledger",
    metadata,
    _column("group_name", String),
    _column("user_name", String),
    _column("counter", Float),
    _column("epoch_wall_s", Float),
    _column("runs", BigInteger),
    _column("run_s", Float),
    Column("advance", Float, nullable=False, server_default="0"),
    Column("bucket_s", Float, nullable=False, server_default="0"),
    Column("buckets", String),
    PrimaryKeyConstraint("group_name", "user_name"),
    sqlite_with_rowid=False,
)
"""The node's counters of each account."""

drain = Table(
    "drain",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    _column("reason", String),
    _column("by_whom", String),
    _column("since_wall_s", Float),
)
"""One row (`id` 1) while the node is drained."""

notices = Table(
    "notices",
    metadata,
    Column("job", RowNumber, primary_key=True, autoincrement=False),
)
"""Finished jobs whose users have yet to be notified."""

payload_uses = Table(
    "payload_uses",
    metadata,
    _column("digest", String),
    _column("job", BigInteger),
    PrimaryKeyConstraint("digest", "job"),
    sqlite_with_rowid=False,
)
"""The jobs that need each payload; a payload is deleted with the last of them."""

_JOB_COLUMNS = ("group_name", "user_name", "owner", "job_name", "submitted_wall_s")

# A table of its own MetaData: a view is read like a table, but never created as one.
history = Table(
    "history",
    MetaData(),
    *(Column(column.name, column.type) for column in attempts.columns),
    *(Column(name, jobs.c[name].type) for name in _JOB_COLUMNS),
)
"""A view: each attempt with the names of its job."""
