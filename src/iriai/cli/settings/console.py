"""`iriai console`: commands of operators, line by line, from a person or a file."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from iriai.cli.framework.command import Command, GlobalOptions, argument
from iriai.cli.framework.standard_streams import at_place, complain
from iriai.config.console_lines import lines_of, words_of
from iriai.model.bounds import CONSOLE_BYTES_MAX
from iriai.model.problem import ExitCode, Problem, UsageProblem

COMMANDS = ("queue", "pool", "gang", "queues", "gangs", "pools", "jobs", "nodes")
"""Commands of iriai that are commands here."""
OWN = ("help", "quit")
"""Commands of the console alone."""
PROMPT = "iriai> "
HELP = """\
queue set N KEY=VALUE...     set a queue          queue unset N      as in the configuration
pool set NAME KEY=VALUE...   set a pool           pool unset NAME    as in the configuration
gang set KEY=VALUE...        set time slices      gang unset         as in the configuration
queues  gangs  pools  jobs  nodes   list them
help COMMAND                 about one of them
quit                         end; so does Ctrl-D
What follows # is a comment."""


def console(
    options: GlobalOptions,
    file: str = argument(
        "",
        metavar="[FILE]",
        help="File with lines to run ('-': standard input), instead of typing them.",
    ),
) -> int:
    """Run commands line by line: queue, pool, gang, queues, gangs, pools, jobs, nodes.

    A line is a command without 'iriai'. On a terminal there are history and completion by the
    Tab key, and 'help'. With FILE the first wrong line ends it, with the exit code of its error:
    lines before it hold, none after it is run. Each command needs the rights that it always needs.
    """
    if file or not sys.stdin.isatty():
        return _run_file(options, file or "-")
    return _converse(options)


def _run_file(options: GlobalOptions, file: str) -> int:
    where = "standard input" if file == "-" else file
    for line in lines_of(_content(file), where):
        with at_place(f"{where}, line {line.number}"):
            code = _run(options, line.text)
        if code is None:
            break
        if code:
            return code
    return ExitCode.DONE


def _content(file: str) -> bytes:
    """Return a file's content, up to more than may be; raises `UsageProblem`."""
    try:
        if file == "-":
            return sys.stdin.buffer.read(CONSOLE_BYTES_MAX + 1)
        with Path(file).open("rb") as stream:
            return stream.read(CONSOLE_BYTES_MAX + 1)
    except OSError as error:
        raise UsageProblem(
            "unreadable", f"{file} cannot be read ({error.strerror})", "give a file of UTF-8 text"
        ) from None


def _converse(options: GlobalOptions) -> int:
    """Run what a person types until they end it; return the exit code."""
    from iriai.cli.settings.console_completion import complete_lines

    complete_lines(options, (*COMMANDS, *OWN))
    print(f"Commands: {', '.join((*COMMANDS, *OWN))}")
    while True:
        try:
            line = input(PROMPT)
        except KeyboardInterrupt:
            print()
            continue
        except EOFError:
            print()
            return ExitCode.DONE
        try:
            if _run(options, line[:CONSOLE_BYTES_MAX]) is None:
                return ExitCode.DONE
        except KeyboardInterrupt:
            print()


def _run(options: GlobalOptions, text: str) -> int | None:
    """Run a line; return the exit code of its command, None if it ends the console."""
    try:
        words = words_of(text)
        if not words:
            return ExitCode.DONE
        if words == ["quit"]:
            return None
        if words[0] == "help" and not {*words[1:]}.difference(OWN):
            print(HELP)
            return ExitCode.DONE
        if words[0] == "quit":
            raise UsageProblem("bad-line", "'quit' has nothing behind it", "leave the rest out")
        if words[0] == "help":
            words = [*words[1:], "--help"]
        if words[0] not in COMMANDS:
            raise UsageProblem(
                "no-console-command",
                f"'{words[0][:60]}' is no command of the console",
                f"use one of: {', '.join((*COMMANDS, *OWN))}",
            )
    except Problem as problem:
        complain(problem, as_json=options.as_json)
        return problem.exit_code
    return _call(options, words)


def _call(options: GlobalOptions, words: Sequence[str]) -> int:
    from iriai.cli.framework.program import run_arguments

    before = [] if options.state is None else ["--state", str(options.state)]
    if options.as_json:
        before.append("--json")
    return run_arguments([*before, *words])


app = Command(
    console,
    ("iriai console", "type commands, with completion"),
    ("iriai console night.rc", "run the lines of a file"),
    ("echo 'queue set 2 state=enabled' | iriai console -", "from a program"),
)
