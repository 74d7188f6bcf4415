"""`iriai release`: let held tasks start."""

from __future__ import annotations

from iriai.cli.framework.command import Command, GlobalOptions
from iriai.cli.jobs.changing.bulk_change import WHOLE_JOBS, print_changed


def release(options: GlobalOptions, names: list[str] = WHOLE_JOBS) -> int:
    """Let held jobs start when it is their turn."""
    with options.connect() as client:
        return print_changed(client.release(names), "released", as_json=options.as_json)


app = Command(
    release,
    ("iriai release ume-42", "a job"),
    ("iriai release 'name:sweep*'", "by its name"),
)
