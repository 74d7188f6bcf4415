"""Notices that are due, and which jobs need a payload.

Revision ID: 0003
"""

from __future__ import annotations

import msgspec
import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")
ROWS = 10_000
"""Jobs that are read at a time."""


class Spec(msgspec.Struct):
    """What of a job's spec names payloads."""

    environment: str = ""
    script: str = ""
    stdin: str = ""


def upgrade() -> None:
    """Make two tables, and fill the one from the jobs that are there."""
    op.create_table("notices", sa.Column("job", NUMBER, primary_key=True, autoincrement=False))
    uses = op.create_table(
        "payload_uses",
        sa.Column("digest", sa.String, nullable=False),
        sa.Column("job", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("digest", "job"),
        sqlite_with_rowid=False,
    )
    decode = msgspec.msgpack.Decoder(Spec).decode
    last = 0
    query = sa.text(
        "SELECT number, spec FROM jobs WHERE number > :last ORDER BY number LIMIT :rows"
    )
    while jobs := op.get_bind().execute(query, {"last": last, "rows": ROWS}).all():
        rows = []
        for number, blob in jobs:
            spec = decode(blob)
            digests = {spec.environment, spec.script, spec.stdin} - {""}
            rows += [{"digest": digest, "job": number} for digest in sorted(digests)]
        op.bulk_insert(uses, rows)
        last = jobs[-1][0]
