"""`iriai backup`: a home as one file."""

from __future__ import annotations

from pathlib import Path

from iriai.cli.framework.command import Command, GlobalOptions, argument, option
from iriai.model.units import format_size


def backup(
    options: GlobalOptions,
    file: Path = argument(..., metavar="FILE", help="File to write."),
    force: bool = option(False, "--force", help="Replace FILE if it exists."),
) -> None:
    """Write jobs, history, counters and configuration of a home to one file.

    The daemon may run meanwhile; the file shows one point in time. It contains the environments of
    jobs, so only its owner may read it. 'iriai restore' makes a home from it.
    """
    from iriai.state.backup import back_up

    done = back_up(options.directory, file, force=force)
    jobs = f"{done.unfinished_jobs} jobs not finished, {done.finished_jobs} finished"
    size = format_size(done.size_bytes)
    options.print_result(done._asdict(), f"{done.home}: {jobs}; {size} in {done.file}")


app = Command(
    backup,
    ("iriai backup /backup/ume.iriai", "the home of this machine, or your own"),
    ("iriai backup --force /backup/ume.iriai", "replace yesterday's"),
)
