"""Usage that accounts paid for urgency.

Revision ID: 0004
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Add a counter to the ledger; what was paid before is not known."""
    op.add_column("ledger", sa.Column("advance", sa.Float, nullable=False, server_default="0"))
