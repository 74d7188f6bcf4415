"""`iriai hold`: keep waiting tasks from starting."""

from __future__ import annotations

from iriai.cli.framework.command import Command, GlobalOptions
from iriai.cli.jobs.changing.bulk_change import WHOLE_JOBS, print_changed


def hold(options: GlobalOptions, names: list[str] = WHOLE_JOBS) -> int:
    """Keep waiting tasks of jobs from starting, until 'iriai release'. Running tasks go on."""
    with options.connect() as client:
        return print_changed(client.hold(names), "held", as_json=options.as_json)


app = Command(
    hold,
    ("iriai hold ume-42", "a job"),
    ("iriai hold 'name:sweep*'", "by its name"),
)
