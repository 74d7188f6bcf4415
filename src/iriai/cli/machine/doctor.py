"""`iriai doctor`: how each limit is kept, and what is missing."""

from __future__ import annotations

import subprocess
import sys
from typing import Annotated

import typer

from iriai.cli.framework.command import MACHINE, GlobalOptions, command_app
from iriai.cli.framework.standard_streams import print_document
from iriai.cli.framework.table import Column, print_table
from iriai.cli.framework.text import count_text
from iriai.client.client import Client
from iriai.model.problem import Refused

MEASURE_S_MAX = 60.0
"""It takes a second; a machine that takes a minute is better measured another time."""

_COLUMNS = (
    Column("", by_word=True),
    Column("About", style="bold"),
    Column("Finding", folds=True),
    Column("What helps", folds=True),
)


def doctor(
    options: GlobalOptions,
    measure: Annotated[
        bool,
        typer.Option("--measure", help="Measure how fast the machine is (KFlops, Mips), first."),
    ] = False,
) -> None:
    """Examine the machine: which limits are enforced and which only sampled, what is missing.

    With --measure, what was measured is kept in the state directory, and told to other machines
    from the next start of the daemon.
    """
    with Client.connect(options.state, follow=False) as client:
        if measure:
            _measure(client.welcome.state_directory)
        report = client.doctor()
    if options.as_json:
        print_document(report)
        return
    print_table(
        _COLUMNS,
        [(each.level, each.subject, each.message, each.hint) for each in report.findings],
    )
    troubles = sum(each.level == "trouble" for each in report.findings)
    print(
        f"{count_text(troubles, 'trouble')} found" if troubles else "Nothing keeps it from working."
    )


def _measure(directory: str) -> None:
    """In a process of its own, on a machine that does little else."""
    words = [sys.executable, "-m", "iriai.daemon.host.speed_benchmark", directory]
    done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=MEASURE_S_MAX)
    if done.returncode:
        raise Refused(
            "not-measured",
            f"the speed could not be measured: {done.stderr.strip().splitlines()[-1]}",
            f"only who may write in {directory} can",
        )


app = command_app(
    doctor,
    panel=MACHINE,
    examples=(
        ("iriai doctor", "after installing, and when something is odd"),
        ("iriai doctor --measure", "once, while nothing else runs"),
        ("iriai doctor --json", "for monitoring: findings with level trouble"),
    ),
)
