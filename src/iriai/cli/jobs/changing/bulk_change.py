"""Names and results of `cancel`, `hold`, `release` and `alter`."""

from __future__ import annotations

from iriai.cli.framework.command import argument
from iriai.cli.framework.standard_streams import print_document, remark
from iriai.cli.framework.table import count_text
from iriai.model.problem import ExitCode
from iriai.model.units import printable
from iriai.wire.changes import Changed

WHOLE_JOBS = argument(
    ..., metavar="ID...", help="Jobs (ume-42), names (name:sweep*).", autocompletion="complete_job"
)

TASKS = argument(
    ...,
    metavar="ID...",
    help="Jobs (ume-42), tasks (ume-42.7), ranges (ume-42.1-10), names (name:sweep*).",
    autocompletion="complete_job",
)


def print_changed(changed: Changed, done: str, *, as_json: bool) -> int:
    """Print how many tasks of which jobs were changed, and each problem; return the exit code."""
    if as_json:
        print_document(changed)
    else:
        for name, tasks in changed.tasks.items():
            print(f"{printable(name)}: {count_text(tasks, 'task')} {done}")
        for name, problem in changed.problems.items():
            remark(f"{name}: {problem}")
    return ExitCode.REFUSED if changed.problems else ExitCode.DONE
