"""`iriai submit`: hand in a job, print its id."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from iriai.cli.array_text import parse_throttled
from iriai.cli.command import DASHES, WORK, command_app
from iriai.cli.document import print_document
from iriai.cli.dry_run import print_dry_run
from iriai.cli.global_options import GlobalOptions
from iriai.cli.job_options import PLACE, JobOptions
from iriai.cli.script_file import is_script, read_script, read_script_from_stdin, read_sent
from iriai.client.answers import JobDraft
from iriai.client.client import Client
from iriai.client.drafting import DraftFields
from iriai.model.problem import UsageProblem

STDIN = "-"


def submit(
    ctx: typer.Context,
    options: GlobalOptions,
    job: JobOptions,
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="-- CMD... | SCRIPT [ARG]...",
            help="A command after --; or a script, whose text is sent ('-': standard input).",
            show_default=False,
        ),
    ],
    array: Annotated[
        str | None,
        typer.Option(
            metavar="RANGES[%N]",
            help="A task for each index, as 1-100 or 1-10,20-30:2, at most N at once; "
            "$IRIAI_TASK_ID tells which.",
        ),
    ] = None,
    stdin: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Standard input; its content is sent.", rich_help_panel=PLACE
        ),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            metavar="PATTERN",
            help="%j job, %t task, %a attempt. \\[default: iriai-%j.%t.out]",
            rich_help_panel=PLACE,
        ),
    ] = None,
    error: Annotated[
        str | None,
        typer.Option(
            metavar="PATTERN",
            help="File for standard error. \\[default: into the output]",
            rich_help_panel=PLACE,
        ),
    ] = None,
    hold: Annotated[
        bool, typer.Option("--hold", help="Keep it from starting until 'iriai release'.")
    ] = False,
) -> None:
    """Hand in a job and print its id; it is durable then.

    The output goes to files in the working directory. Whatever happens to this machine's
    processes, the job is finished or reported.
    """
    more = DraftFields(output=output, error=error, held=hold)
    if array is not None:
        more["array"], more["throttle"] = parse_throttled(array)
    if stdin is not None:
        more["stdin"] = read_sent(stdin)
    draft = _draft(words, job, more, after_dashes=ctx.meta[DASHES])
    with Client.connect(options.state) as client:
        if job.dry_run:
            print_dry_run(client.dry_run(draft), as_json=options.as_json)
            return
        submitted = client.submit(draft)
    if options.as_json:
        print_document(submitted)
    else:
        print(submitted.id)


def _draft(words: list[str], job: JobOptions, more: DraftFields, *, after_dashes: bool) -> JobDraft:
    """The draft of a command, or of the script that the first word names."""
    first, rest = words[0], words[1:]
    if after_dashes:
        return job.draft(words, more)
    if first == STDIN:
        if "stdin" in more:
            raise UsageProblem(
                "two-inputs", "the script comes from standard input already", "leave out --stdin"
            )
        more["script"] = read_script_from_stdin()
        more["name"] = job.name or "stdin"
    elif is_script(Path(first)):
        more["script"] = read_script(Path(first))
        more["name"] = job.name or Path(first).name
    else:
        return job.draft(words, more)
    return job.draft(rest, more)


app = command_app(
    submit,
    panel=WORK,
    takes_command=True,
    examples=(
        ("iriai submit -- make -j4", "a command, in this directory, with this environment"),
        ("iriai submit --cpus 4 --memory 8G --time 2h ./train.sh", "a script, whose text is sent"),
        ("iriai submit --array 1-100 --output '%t.txt' ./analyse.sh", "a hundred tasks"),
        ("echo 'sort big.txt | uniq -c' | iriai submit -", "a script from standard input"),
        ("iriai submit -p 2 --name urgent -- ./report", "sooner, at twice the price"),
        ("iriai wait $(iriai submit -- ./step1) && ./step2", "go on when it has succeeded"),
    ),
)
