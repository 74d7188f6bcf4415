"""Options that `submit` has and `run` has not."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from iriai.cli.jobs.options.array_ranges import parse_throttled
from iriai.cli.jobs.options.job import PLACE
from iriai.cli.jobs.options.script_file import read_sent
from iriai.client.job_builder import DraftFields


@dataclass(frozen=True, slots=True)
class SubmitOptions:
    """Of a job that nobody waits for."""

    array: Annotated[
        str | None,
        typer.Option(
            metavar="RANGES[%N]",
            help="A task for each index, as 1-100 or 1-10,20-30:2, at most N at once; "
            "$IRIAI_TASK_ID tells which.",
        ),
    ] = None
    stdin: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Standard input; its content is sent.", rich_help_panel=PLACE
        ),
    ] = None
    output: Annotated[
        str | None,
        typer.Option(
            metavar="PATTERN",
            help="%j job, %t task, %a attempt. \\[default: iriai-%j.%t.out]",
            rich_help_panel=PLACE,
        ),
    ] = None
    error: Annotated[
        str | None,
        typer.Option(
            metavar="PATTERN",
            help="File for standard error. \\[default: into the output]",
            rich_help_panel=PLACE,
        ),
    ] = None
    hold: Annotated[
        bool, typer.Option("--hold", help="Keep it from starting until 'iriai release'.")
    ] = False
    no_directives: Annotated[
        bool,
        typer.Option("--no-directives", help="Do not read #IRIAI, #SBATCH and #PBS in a script."),
    ] = False

    def fields(self) -> DraftFields:
        """What they say of the draft; raises `Problem` where that cannot be had."""
        fields = DraftFields(output=self.output, error=self.error, held=self.hold)
        if self.array is not None:
            fields["array"], fields["throttle"] = parse_throttled(self.array)
        if self.stdin is not None:
            fields["stdin"] = read_sent(self.stdin)
        return fields
