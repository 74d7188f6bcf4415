"""`iriai unsuspend`: let suspended tasks go on."""

from __future__ import annotations

from iriai.cli.framework.command import Command, GlobalOptions
from iriai.cli.jobs.changing.bulk_change import TASKS, print_changed


def unsuspend(options: GlobalOptions, names: list[str] = TASKS) -> int:
    """Let tasks go on that 'iriai suspend' stopped.

    Each goes on once its cpus are free again, before tasks that wait, and after those that were
    promised a start meanwhile.
    """
    with options.connect() as client:
        return print_changed(client.unsuspend(names), "unsuspended", as_json=options.as_json)


app = Command(
    unsuspend,
    ("iriai unsuspend ume-42", "all suspended tasks of a job"),
    ("iriai unsuspend ume-42.7", "a task of an array"),
)
