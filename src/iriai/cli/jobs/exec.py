"""`iriai exec`: run a command inside a running job, with its output here."""

from __future__ import annotations

import os

from iriai.cli.framework.command import Command, GlobalOptions, argument, option
from iriai.cli.framework.standard_streams import (
    STDERR,
    STDOUT,
    print_document,
    readable_stdin,
    remark,
)
from iriai.cli.jobs.watching.exit_status import exit_code, outcome_text
from iriai.cli.jobs.watching.step import follow_step
from iriai.model.problem import UsageProblem
from iriai.model.state import EndCause
from iriai.wire.steps import NumberStep


def exec(  # noqa: A001 - the command's name
    options: GlobalOptions,
    job: str = argument(..., metavar="JOB[.TASK[.RANK]]", autocompletion="complete_job"),
    words: list[str] | None = argument(
        None, metavar="-- CMD...", help="The command; with --pty your shell by default."
    ),
    pty: bool = option(False, "--pty", help="Give the command a terminal, for shells and editors."),
    no_stdin: bool = option(False, "--no-stdin", help="Do not pass on standard input."),
) -> int:
    """Run a command inside a running job: on its machine, with its user, limits and environment.

    The command runs beside the task (of an array name the task, of several ranks the rank, else it
    is rank 0), and is ended with it. It takes no resources but those of the job, and does not wait.

    Standard input, output and the exit code are those of iriai run. Ctrl-C ends the command, and
    the job goes on. If iriai exec ends in any other way, the command reads the end of its input.
    """
    command = tuple(words or ())
    if not command:
        if not pty:
            raise UsageProblem(
                "no-command",
                "there is no command",
                "give one after --, as in iriai exec ume-42 -- ps",
            )
        command = (os.environ.get("SHELL") or "/bin/sh",)
    if pty and options.as_json:
        raise UsageProblem("no-such-form", "--pty has no JSON form", "leave out one of them")
    source = None if no_stdin or pty else readable_stdin()
    sink = STDERR if options.as_json else STDOUT
    where = NumberStep(job)
    outcome = follow_step(options.connect, where, command, source, sink, is_terminal=pty)
    if options.as_json:
        print_document(outcome)
    elif outcome.message or outcome.cause not in (EndCause.COMPLETED, EndCause.FAILED):
        remark(outcome_text(outcome))
    return exit_code(outcome)


app = Command(
    exec,
    ("iriai exec ume-42 -- ps -u ann", "what a job does"),
    ("iriai exec ume-42 --pty", "a shell inside it"),
    ("iriai exec ume-42.7.3 -- nvidia-smi", "beside rank 3 of its task 7"),
)
