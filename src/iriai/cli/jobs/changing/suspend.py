"""`iriai suspend`: freeze running tasks."""

from __future__ import annotations

from iriai.cli.framework.command import Command, GlobalOptions
from iriai.cli.jobs.changing.bulk_change import TASKS, print_changed


def suspend(options: GlobalOptions, names: list[str] = TASKS) -> int:
    """Suspend running tasks, until 'iriai unsuspend'. Tasks that wait are not concerned.

    Its processes do nothing and keep their memory and GPUs, which are charged; its cpus are free
    for others. Time suspended counts in no time limit. A task that is suspended for too long in all
    ([jobs] user_suspend_max_s) is ended and waits again.
    """
    with options.connect() as client:
        return print_changed(client.suspend(names), "suspended", as_json=options.as_json)


app = Command(
    suspend,
    ("iriai suspend ume-42", "all running tasks of a job"),
    ("iriai suspend ume-42.7 ume-42.10-19", "tasks of an array"),
    ("iriai suspend 'name:sweep*'", "your jobs with such names"),
)
