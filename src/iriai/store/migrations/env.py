"""The environment of Alembic for every migration: the connection of `store.migrate`."""

from __future__ import annotations

from alembic import context

# All pending revisions are one transaction: a migration that is interrupted has not begun.
context.configure(connection=context.config.attributes["connection"], transactional_ddl=True)
with context.begin_transaction():
    context.run_migrations()
