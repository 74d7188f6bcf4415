"""`iriai backup`: a home as one file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from iriai.cli.framework.command import GlobalOptions, command_app
from iriai.cli.framework.standard_streams import print_document
from iriai.model.paths import state_directory
from iriai.model.units import format_size


def backup(
    options: GlobalOptions,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File to write.")],
    force: Annotated[bool, typer.Option("--force", help="Replace FILE if it exists.")] = False,
) -> None:
    """Write jobs, history, counters and configuration of a home to one file.

    The daemon may run meanwhile; the file shows one point in time. It contains the environments of
    jobs, so only its owner may read it. 'iriai restore' makes a home from it.
    """
    from iriai.daemon.storage.backup import back_up

    option = None if options.state is None else str(options.state)
    done = back_up(state_directory(option, os.environ, os.geteuid()), file, force=force)
    if options.as_json:
        print_document(done._asdict())
        return
    jobs = f"{done.unfinished_jobs} jobs not finished, {done.finished_jobs} finished"
    print(f"{done.home}: {jobs}; {format_size(done.size_bytes)} in {done.file}")


app = command_app(
    backup,
    ("iriai backup /backup/ume.iriai", "the home of this machine, or your own"),
    ("iriai backup --force /backup/ume.iriai", "replace yesterday's"),
)
