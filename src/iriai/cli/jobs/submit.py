"""`iriai submit`: submit a job, print its id."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import msgspec

from iriai.cli.framework.command import (
    Command,
    GlobalOptions,
    Invocation,
    OptionGroup,
    argument,
    option,
)
from iriai.cli.framework.standard_streams import remark, remarks
from iriai.cli.jobs.options.job import JobOptions, surrounding
from iriai.cli.jobs.options.parallel import ParallelOptions
from iriai.cli.jobs.options.script import (
    SCRIPT,
    Script,
    is_script,
    parse_throttled,
    read_script,
    read_script_from_stdin,
    read_sent,
)
from iriai.client.job_builder import DraftFields
from iriai.model.problem import Refused, UsageProblem
from iriai.wire.requests import JobDraft

if TYPE_CHECKING:
    from pathlib import Path


class SubmitOptions(OptionGroup, frozen=True):
    """Options of a job that is not waited for."""

    array: str | None = option(
        None,
        metavar="RANGES[%N]",
        help="Start a task for each index, as 1-100 or 1-10,20-30:2, at most N at once; "
        "$IRIAI_TASK_ID is the index.",
    )
    stdin: Path | None = surrounding(
        None, metavar="FILE", help="File for standard input; its content is sent along."
    )
    output: str | None = surrounding(
        None,
        "-o",
        "--output",
        metavar="PATTERN",
        help="File for the output; %j is the job, %t the task, %r the rank, %a the attempt. "
        "\\[default: iriai-%j.%t.out]",
    )
    error: str | None = surrounding(
        None, metavar="PATTERN", help="File for standard error. \\[default: the output file]"
    )
    hold: bool = option(False, "--hold", help="Hold the job until 'iriai release'.")
    no_directives: bool = option(
        False, "--no-directives", help="Ignore #IRIAI, #SBATCH and #PBS lines in a script."
    )

    def fields(self) -> DraftFields:
        """Return the fields of the draft; raises `Problem` if one cannot be read."""
        fields = DraftFields(output=self.output, error=self.error, held=self.hold)
        if self.array is not None:
            fields["array"], fields["throttle"] = parse_throttled(self.array)
        if self.stdin is not None:
            fields["stdin"] = read_sent(self.stdin)
        return fields


STDIN = "-"
_T = TypeVar("_T")


def submit(
    invocation: Invocation,
    options: GlobalOptions,
    job: JobOptions,
    parallel: ParallelOptions,
    own: SubmitOptions,
    words: list[str] | None = argument(
        None,
        metavar="-- CMD... | SCRIPT [ARG]...",
        help="A command after --; or a script, whose text is sent ('-': standard input).",
    ),
) -> int | None:
    """Submit a job and print its id; from then on it is durable.

    The output goes to files in the working directory. The job is finished or reported even if
    processes of this machine fail. A script may set options in its leading comments, as #IRIAI,
    #SBATCH or #PBS; options on the command line win.
    """
    words = words or []
    if not (words or parallel.pipe):
        raise UsageProblem(
            "no-command", "there is no command", "give one after --, or name a script"
        )
    script = _script(invocation, words, own.stdin) if words else None
    if script is not None and script.has_directives and not own.no_directives:
        from iriai.cli.jobs.options.script_directives import submit_with_directives

        return submit_with_directives(invocation.context(), script)
    draft = _draft(script, words, job, own, parallel)
    with options.connect() as client:
        if job.dry_run:
            from iriai.cli.jobs.options.dry_run import print_dry_run

            answer = _asked(client.dry_run, draft, script)
            options.print_result(answer, lambda: print_dry_run(answer))
            return None
        submitted = _asked(partial(client.submit, immediate=job.immediate), draft, script)
    remarks(submitted.warnings)
    options.print_result(submitted, submitted.id)
    return None


def _asked(ask: Callable[[JobDraft], _T], draft: JobDraft, script: Script | None) -> _T:
    """Return the answer of `ask`; mail that cannot be sent does not refuse a Slurm script."""
    try:
        return ask(draft)
    except Refused as refusal:
        if refusal.code != "no-sendmail" or script is None or not script.mail_place:
            raise
        remark(f"{script.mail_place}: mail is ignored: {refusal.message}")
        return ask(msgspec.structs.replace(draft, notify=""))


def _draft(
    script: Script | None,
    words: list[str],
    job: JobOptions,
    own: SubmitOptions,
    parallel: ParallelOptions,
) -> JobDraft:
    """Return the draft of `script`, which the first of `words` names; None: of a command."""
    if script is None:
        return job.draft(words, own.fields() | parallel.fields())
    with script.naming_lines():
        if script.path == STDIN:
            _check_one_input(own.stdin)  # a directive may name one
        fields = own.fields() | parallel.fields()
        fields["script"] = script.content
        fields["name"] = job.name or script.name
        if script.batch is not None:
            fields["batch"] = script.batch
        return job.draft(words[1:], fields)


def _script(invocation: Invocation, words: list[str], stdin: Path | None) -> Script | None:
    """Return the script that the first word names, if it is one; read once."""
    known = invocation.meta.get(SCRIPT)
    if isinstance(known, Script):
        return known
    first = words[0]
    if invocation.has_dashes:
        return None
    if first == STDIN:
        _check_one_input(stdin)
        return Script(STDIN, "stdin", read_script_from_stdin())
    if is_script(first):
        return Script(first, os.path.basename(first), read_script(first))
    return None


def _check_one_input(stdin: Path | None) -> None:
    if stdin is not None:
        raise UsageProblem(
            "two-inputs", "the script already comes from standard input", "leave out --stdin"
        )


app = Command(
    submit,
    ("iriai submit -- make -j4", "a command, in this directory, with this environment"),
    ("iriai submit --cpus 4 --memory 8G --time 2h ./train.sh", "a script; its text is sent"),
    ("iriai submit --array 1-100 --output '%t.txt' ./analyse.sh", "a hundred tasks"),
    ("iriai submit --time 2h train.sbatch", "a Slurm script, with another time limit"),
    ("echo 'sort big.txt | uniq -c' | iriai submit -", "a script from standard input"),
    ("iriai submit -n 64 --time 1h -- ./wave", "64 processes, on as few machines as hold them"),
    ("iriai submit -p 2 --name urgent -- ./report", "sooner, at twice the cost"),
    ("iriai wait $(iriai submit -- ./step1) && ./step2", "continue when it has succeeded"),
    takes_command=True,
)
