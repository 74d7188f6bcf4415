"""Factors of charges, and drained machines.

Revision ID: 0002
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

HISTORY = """
CREATE VIEW history AS
SELECT attempts.*, jobs.group_name, jobs.user_name, jobs.owner, jobs.job_name, jobs.submitted_wall_s
FROM attempts JOIN jobs ON jobs.number = attempts.job
"""


def upgrade() -> None:
    """Add a column to the history, and a table."""
    op.execute("DROP VIEW history")
    op.add_column("attempts", sa.Column("factors", sa.String))
    op.execute(HISTORY)
    op.create_table(
        "drain",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("reason", sa.String, nullable=False),
        sa.Column("by_whom", sa.String, nullable=False),
        sa.Column("since_wall_s", sa.Float, nullable=False),
    )
