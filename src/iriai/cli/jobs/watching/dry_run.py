"""Prints the answer to a dry run."""

from __future__ import annotations

from iriai.cli.framework.standard_streams import print_document
from iriai.cli.framework.table import print_pairs, reason_text
from iriai.cli.framework.text import amounts_text, count_text, span_text
from iriai.wire.requests import DryRun


def print_dry_run(answer: DryRun, *, as_json: bool) -> None:
    """Print what would have become of the job."""
    if as_json:
        print_document(answer)
        return
    waits = "\n".join(map(reason_text, answer.waits_for))
    print("The job would be accepted; nothing was submitted.")
    print_pairs(
        [
            ("account", answer.account),
            ("tasks", count_text(answer.tasks, "task") if answer.tasks > 1 else ""),
            ("needs", amounts_text(answer.resources)),
            ("time limit", span_text(answer.time_limit_s)),
            ("output", answer.output),
            ("waits for", waits or "nothing: it would start at once"),
        ]
    )
