"""`iriai doctor`: how each limit is kept, and what is missing."""

from __future__ import annotations

from iriai.cli.command import MACHINE, command_app
from iriai.cli.document import print_document
from iriai.cli.global_options import GlobalOptions
from iriai.cli.plain_text import count_text
from iriai.cli.table import Column, print_table
from iriai.client.client import Client

_COLUMNS = (
    Column("", by_word=True),
    Column("About", style="bold"),
    Column("Finding", folds=True),
    Column("What helps", folds=True),
)


def doctor(options: GlobalOptions) -> None:
    """Examine the machine: which limits are enforced and which only sampled, what is missing."""
    with Client.connect(options.state, follow=False) as client:
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


app = command_app(
    doctor,
    panel=MACHINE,
    examples=(
        ("iriai doctor", "after installing, and when something is odd"),
        ("iriai doctor --json", "for monitoring: findings with level trouble"),
    ),
)
