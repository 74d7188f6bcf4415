"""`iriai doctor`: how each limit is enforced, and what is missing."""

from __future__ import annotations

import subprocess
import sys
import time

from iriai.cli.framework.command import Command, GlobalOptions, option
from iriai.cli.framework.standard_streams import print_document
from iriai.cli.framework.table import Column, count_text, print_table
from iriai.client.client import Client
from iriai.model.problem import Refused
from iriai.wire.reports import Doctor, DoctorReport, Finding

OWNER_S_MAX, OWNER_LOOK_S = 4.0, 0.1
"""How long it takes at most to measure what an owner keeps, and between two looks."""
MEASURE_S_MAX = 60.0
"""A measurement takes a second; a machine that needs a minute is better measured another time."""

_COLUMNS: tuple[Column[Finding], ...] = (
    Column("", lambda row: row.level, by_word=True),
    Column("About", lambda row: row.subject, style="bold"),
    Column("Finding", lambda row: row.message, folds=True),
    Column("What to do", lambda row: row.hint, folds=True),
)


def doctor(
    options: GlobalOptions,
    measure: bool = option(
        False, "--measure", help="First measure how fast the machine is (KFlops, Mips)."
    ),
    owner: bool = option(
        False, "--owner", help="First measure what an owner keeps of the processors beside tasks."
    ),
) -> None:
    """Examine the machine: which limits are enforced or only sampled, and what is missing.

    With --measure, the measured speed is kept in the state directory, and published to other
    machines from the next start of the daemon. With --owner, all processors are busy for a second.
    """
    with options.connect(follow=False) as client:
        if measure:
            _measure(client.welcome.state_directory)
        report = client.ask(Doctor(owner))
        if owner:
            report = _measured(client, report)
    if options.as_json:
        print_document(report)
        return
    print_table(_COLUMNS, report.findings)
    troubles = sum(each.level == "trouble" for each in report.findings)
    print(f"{count_text(troubles, 'trouble')} found" if troubles else "No problem was found.")


def _measured(client: Client, before: DoctorReport) -> DoctorReport:
    """Return the report once it says something new of lowering, or nothing for long."""
    end_s = time.monotonic() + OWNER_S_MAX
    while time.monotonic() < end_s:
        time.sleep(OWNER_LOOK_S)
        report = client.ask(Doctor())
        if _of_lowering(report) != _of_lowering(before):
            return report
    return before


def _of_lowering(report: DoctorReport) -> list[Finding]:
    return [each for each in report.findings if each.subject == "lowering"]


def _measure(directory: str) -> None:
    """Measure in a process of its own, on a machine that does little else."""
    from iriai.system.extras import need_extra

    need_extra("classads", "measuring the speed")
    words = [sys.executable, "-m", "iriai.host.speed_benchmark", directory]
    done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=MEASURE_S_MAX)
    if done.returncode:
        raise Refused(
            "not-measured",
            f"the speed could not be measured: {done.stderr.strip().splitlines()[-1]}",
            f"run the command as a user who may write in {directory}",
        )


app = Command(
    doctor,
    ("iriai doctor", "after installation, and when something is odd"),
    ("iriai doctor --measure", "once, while nothing else runs"),
    ("iriai doctor --owner", "whether your programs go first on a machine with [owner]"),
    ("iriai doctor --json", "for monitoring: findings with level trouble"),
)
