"""The first schema.

Revision ID: 0001
"""

from __future__ import annotations

from typing import TypeVar

import sqlalchemy as sa
from alembic import op
from sqlalchemy.types import TypeEngine

revision = "0001"
down_revision = None

T = TypeVar("T")

# SQLite keys a table by its row number only where the type is called exactly INTEGER.
NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")
HISTORY = """
CREATE VIEW history AS
SELECT attempts.*, jobs.group_name, jobs.user_name, jobs.owner, jobs.job_name, jobs.submitted_wall_s
FROM attempts JOIN jobs ON jobs.number = attempts.job
"""


def upgrade() -> None:
    """Make every table."""
    _make_jobs()
    _make_attempts()
    _make_node_tables()


def _column(name: str, kind: type[TypeEngine[T]]) -> sa.Column[T]:
    return sa.Column(name, kind, nullable=False)


def _make_jobs() -> None:
    op.create_table(
        "payloads",
        sa.Column("digest", sa.String, primary_key=True, nullable=False),
        _column("content", sa.LargeBinary),
    )
    op.create_table(
        "jobs",
        sa.Column("number", NUMBER, primary_key=True, autoincrement=False),
        _column("group_name", sa.String),
        _column("user_name", sa.String),
        _column("owner", sa.String),
        _column("job_name", sa.String),
        _column("spec", sa.LargeBinary),
        _column("submitted_wall_s", sa.Float),
        sa.Column("finished_wall_s", sa.Float),
        sa.Column("cause", sa.String),
        sa.Column("succeeded", sa.Integer),
    )
    op.create_index("jobs_by_finish", "jobs", ["finished_wall_s"])
    op.create_table(
        "events",
        _column("job", sa.BigInteger),
        _column("sequence", sa.Integer),
        _column("wall_s", sa.Float),
        _column("change", sa.LargeBinary),
        _column("story", sa.String),
        sa.PrimaryKeyConstraint("job", "sequence"),
        sqlite_with_rowid=False,
    )


def _make_attempts() -> None:
    op.create_table(
        "attempts",
        _column("job", sa.BigInteger),
        _column("task_index", sa.Integer),
        _column("attempt", sa.Integer),
        _column("machine", sa.String),
        _column("cause", sa.String),
        sa.Column("exit_code", sa.Integer),
        sa.Column("signal", sa.Integer),
        _column("cpu_s", sa.Float),
        _column("memory_peak_bytes", sa.BigInteger),
        _column("read_bytes", sa.BigInteger),
        _column("written_bytes", sa.BigInteger),
        _column("started_wall_s", sa.Float),
        _column("ended_wall_s", sa.Float),
        _column("elapsed_s", sa.Float),
        _column("charge_s", sa.Float),
        _column("message", sa.String),
        sa.PrimaryKeyConstraint("job", "task_index", "attempt"),
        sqlite_with_rowid=False,
    )
    op.create_index("attempts_by_end", "attempts", ["ended_wall_s"])
    op.execute(HISTORY)


def _make_node_tables() -> None:
    op.create_table(
        "meta",
        sa.Column("name", sa.String, primary_key=True, nullable=False),
        _column("value", sa.BigInteger),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "claims",
        sa.Column("attempt", sa.String, primary_key=True, nullable=False),
        _column("claim", sa.LargeBinary),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "ledger",
        _column("group_name", sa.String),
        _column("user_name", sa.String),
        _column("counter", sa.Float),
        _column("epoch_wall_s", sa.Float),
        _column("runs", sa.BigInteger),
        _column("run_s", sa.Float),
        sa.PrimaryKeyConstraint("group_name", "user_name"),
        sqlite_with_rowid=False,
    )
