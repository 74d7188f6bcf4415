"""`iriai run`: run a command as a job, with its output here."""

from __future__ import annotations

import os

from iriai.cli.framework.command import Command, GlobalOptions, argument, option
from iriai.cli.framework.standard_streams import (
    STDERR,
    STDOUT,
    print_document,
    readable_stdin,
    remark,
    remarks,
    sink_to,
)
from iriai.cli.jobs.options.job import JobOptions, surrounding
from iriai.cli.jobs.options.parallel import ParallelOptions
from iriai.cli.jobs.watching.exit_status import exit_code, outcome_text
from iriai.cli.jobs.watching.follow import JobFollower, remark_offline
from iriai.cli.jobs.watching.interrupt import Interruption
from iriai.cli.jobs.watching.labels import RankLabels
from iriai.cli.jobs.watching.waiting_line import WaitingLine
from iriai.client.client import Client
from iriai.client.job_builder import DraftFields
from iriai.client.tail import Sink
from iriai.model.problem import UsageProblem
from iriai.model.state import EndCause
from iriai.model.submission import Interaction
from iriai.wire.requests import JobDraft, LogFile, Outcome, WriteInput


def run(
    options: GlobalOptions,
    job: JobOptions,
    parallel: ParallelOptions,
    words: list[str] | None = argument(
        None, metavar="-- CMD...", help="The command; with --pty your shell by default."
    ),
    pty: bool = option(False, "--pty", help="Give the command a terminal, for shells and editors."),
    no_label: bool = surrounding(
        False, "--no-label", help="Show the lines of several ranks without 'RANK: ' before them."
    ),
    no_stdin: bool = surrounding(
        False,
        "--no-stdin",
        help="Do not pass on standard input. Then the job can be rerun if it is lost.",
    ),
) -> int:
    """Run a command as a job: wait for its turn, show its output, exit with its code.

    The command reads your standard input, wherever it runs; it gets what you type line by line, or
    with --pty key by key. Input is sent ahead of the command's reads, as ssh does: in a loop over
    the lines of a file, use --no-stdin.

    Standard input goes to rank 0 of several; the lines of their output begin with 'RANK: '.

    The exit code is 128 + N after signal N, 124 after the time limit, 125 after another limit or
    when the job was lost, 130 when it was cancelled. Ctrl-C asks whether to cancel; if this command
    ends in any other way, the job goes on.
    """
    words = words or []
    if not (words or parallel.pipe):
        if not pty:
            raise UsageProblem(
                "no-command",
                "there is no command",
                "give one after --, as in iriai run -- hostname",
            )
        words = [os.environ.get("SHELL") or "/bin/sh"]
    if pty and options.as_json:
        raise UsageProblem("no-such-form", "--pty has no JSON form", "leave out one of them")
    source = None if no_stdin or pty else readable_stdin()
    kind = Interaction.TERMINAL if pty else Interaction.STREAM
    draft = job.draft(words, DraftFields(interaction=kind) | parallel.fields())
    with options.connect() as client:
        if job.dry_run:
            from iriai.cli.jobs.options.dry_run import print_dry_run

            answer = client.dry_run(draft)
            options.print_result(answer, lambda: print_dry_run(answer))
            return 0
        if pty:
            from iriai.cli.jobs.watching.pty import run_on_terminal

            outcome = run_on_terminal(options.connect, client, draft, immediate=job.immediate)
        else:
            outcome = _stream(
                options,
                client,
                draft,
                source,
                immediate=job.immediate,
                is_labelled=not no_label,
            )
    return _print_ending(outcome, as_json=options.as_json)


def _stream(
    options: GlobalOptions,
    client: Client,
    draft: JobDraft,
    source: int | None,
    *,
    immediate: bool,
    is_labelled: bool,
) -> Outcome:
    """Submit the job, and copy input from `source` and its output until the end."""
    # A document is to stand alone on standard output.
    output = sink_to(STDERR if options.as_json else STDOUT)
    labels = RankLabels(output, sink_to(STDERR), are_shown=is_labelled)
    with Interruption() as interruption:
        submitted = client.submit(draft, takes_input=source is not None, immediate=immediate)
        remarks(submitted.warnings)
        job = submitted.id
        line = WaitingLine(client, job)

        def sinks_for(file: LogFile) -> tuple[Sink, Sink]:
            line.clear()
            return labels.sinks_for(file)

        watch = JobFollower(client, job, sinks_for, remark_offline)
        try:
            while (outcomes := watch.step()) is None:
                if interruption.is_pending:
                    line.clear()
                    interruption.act(client, job)
                line.update(is_started=watch.is_started)
                if watch.is_started and source is not None:
                    from iriai.client.input import InputSender

                    first = WriteInput(job, 0, b"")
                    InputSender(options.connect, first, source, is_terminal=False).start()
                    source = None
        except BrokenPipeError:
            remark(f"the output is closed, but {job} goes on: iriai cancel {job} ends it")
            raise
        finally:
            line.clear()
        labels.finish()
    return outcomes[0]


def _print_ending(outcome: Outcome, *, as_json: bool) -> int:
    """Print what the exit code alone does not show; return the exit code."""
    if as_json:
        print_document(outcome)
    elif outcome.message or outcome.cause not in (EndCause.COMPLETED, EndCause.FAILED):
        remark(outcome_text(outcome))
    return exit_code(outcome)


app = Command(
    run,
    ("iriai run -- hostname", "one command"),
    ("iriai run --cpus 4 --time 30m -- make -j4", "with what it needs"),
    ("sort big.txt | iriai run -- uniq -c | head", "as part of a pipe"),
    ("iriai run -n 4 -- hostname", "four times, all at once, on one machine or several"),
    ("iriai run --gpus 1 --pty", "a shell on a machine with a GPU"),
    ("iriai run -p 4 --name quick -- ./check", "sooner, at four times the cost"),
    takes_command=True,
)
