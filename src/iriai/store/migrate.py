"""Bring a database to the schema of this version, in a process of its own.

Alembic costs 12 MB and a tenth of a second; a daemon that holds both ready for years would pay for
what happens once in its life. So it runs in a child, and only where the schema is not the newest.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from iriai.model.problem import Problem
from iriai.store.sqlite import migration_engine, translated

MIGRATIONS = Path(__file__).parent / "migrations"
MIGRATION_MAX_S = 600.0
"""A migration rewrites at most the history, some gigabytes; what takes longer hangs."""


def migrate(path: Path) -> None:
    """Run every migration that the database at `path` lacks; if one fails nothing changes."""
    program = f"from {__name__} import main; main()"
    command = (sys.executable, "-c", program, str(path))
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=MIGRATION_MAX_S, check=False
        )
    except subprocess.TimeoutExpired:
        trouble = f"it was not done after {MIGRATION_MAX_S:.0f} s"
    else:
        if done.returncode == 0:
            return
        trouble = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
    raise Problem(
        "state-not-migrated",
        f"{path} could not be brought to the schema of this version: {trouble}",
        "nothing was changed; remove the cause and start again",
    )


def migrate_here(path: Path) -> None:
    """Run the migrations within this process, which loads Alembic."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("path_separator", "os")
    config.set_main_option("script_location", str(MIGRATIONS))
    engine = migration_engine(path)
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
    engine.dispose()


def main() -> None:
    """Run the migrations in the child; the last line of its standard error names a failure."""
    path = Path(sys.argv[1])
    try:
        with translated(path):
            migrate_here(path)
    except Problem as problem:
        sys.exit(problem.message)
