"""What Alembic runs for every migration: on the connection that `store.migrate` hands it."""

from __future__ import annotations

from alembic import context

# All pending revisions are one transaction: a migration that is interrupted has not begun.
context.configure(connection=context.config.attributes["connection"], transactional_ddl=True)
with context.begin_transaction():
    context.run_migrations()
