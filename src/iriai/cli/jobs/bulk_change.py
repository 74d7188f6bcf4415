"""Common to `cancel`, `hold` and `release`: names in, changes out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated

import typer

from iriai.cli.framework.completion import complete_job
from iriai.cli.framework.standard_streams import print_document, remark
from iriai.cli.framework.table import count_text
from iriai.model.problem import ExitCode
from iriai.model.units import printable
from iriai.wire.changes import Changed

WHOLE_JOBS = Annotated[
    list[str],
    typer.Argument(
        metavar="ID...",
        help="Jobs (ume-42), names (name:sweep*).",
        autocompletion=complete_job,
        show_default=False,
    ),
]


def change(
    act: Callable[[Sequence[str]], Changed], names: Sequence[str], done: str, *, as_json: bool
) -> int:
    """Apply `act` to `names` and print what changed; return the exit code."""
    changed = act(names)
    print_changed(changed, done, as_json=as_json)
    if not as_json:
        for name, problem in changed.problems.items():
            remark(f"{name}: {problem}")
    return ExitCode.REFUSED if changed.problems else ExitCode.DONE


def print_changed(changed: Changed, done: str, *, as_json: bool) -> None:
    """Print how many tasks of which jobs were changed."""
    if as_json:
        print_document(changed)
        return
    for name, tasks in changed.tasks.items():
        print(f"{printable(name)}: {count_text(tasks, 'task')} {done}")
