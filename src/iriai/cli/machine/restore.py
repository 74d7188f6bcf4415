"""`iriai restore`: a home from its backup."""

from __future__ import annotations

import time
from pathlib import Path

from iriai.cli.framework.command import Command, GlobalOptions, argument, option


def restore(
    options: GlobalOptions,
    file: Path = argument(..., metavar="FILE", help="File that 'iriai backup' wrote."),
    first_number: int | None = option(
        None,
        metavar="N",
        help="Number of the next job, larger than all given out since. \\[default: one "
        "that none of them can have reached]",
    ),
) -> None:
    """Make a state directory from a backup; it must be empty, or not exist yet.

    The home does not know what it did after the backup: jobs submitted since are lost, and those
    that had not finished then go on, or run again.
    """
    from iriai.state.restore import restore as restore_home

    done = restore_home(file, options.directory, first_number)
    made = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(done.made_wall_s))
    options.print_result(
        done._asdict(),
        f"{done.home} is restored in {done.state_directory}, as of {made}.\n"
        f"{done.unfinished_jobs} jobs go on; the next one is {done.home}-{done.first_number}.\n"
        "Start it with 'iriai up'.",
    )


app = Command(
    restore,
    ("iriai restore /backup/ume.iriai", "at its old place"),
    ("iriai restore /backup/ume.iriai --state /tmp/look", "somewhere else, to look at it"),
)
