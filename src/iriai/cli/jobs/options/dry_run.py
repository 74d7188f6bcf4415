"""What `--dry-run` prints; loaded for that, since a submission needs no tables."""

from __future__ import annotations

from iriai.cli.framework.reasons import reasons_text
from iriai.cli.framework.table import (
    amounts_text,
    count_text,
    print_pairs,
    span_text,
)
from iriai.wire.requests import DryRun


def print_dry_run(answer: DryRun) -> None:
    """Print what would have become of the job."""
    waits = reasons_text(answer.waits_for)
    print("The job would be accepted; nothing was submitted.")
    print_pairs(
        [
            ("account", answer.account),
            ("tasks", count_text(answer.tasks, "task") if answer.tasks > 1 else ""),
            ("ranks", answer.ranks),
            ("needs", f"{amounts_text(answer.resources)}{' for each rank' * bool(answer.ranks)}"),
            ("time limit", span_text(answer.time_limit_s)),
            ("output", answer.output),
            ("waits for", waits or "nothing: it would start at once"),
        ]
    )
