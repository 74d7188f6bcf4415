"""Usage of accounts within a window.

Revision ID: 0005
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Add buckets to the ledger: none, since what was used before is in the counters."""
    op.add_column("ledger", sa.Column("bucket_s", sa.Float, nullable=False, server_default="0"))
    op.add_column("ledger", sa.Column("buckets", sa.String))
