"""`iriai usage`: resources used, by account or by job."""

from __future__ import annotations

import re
import sys
import time
from enum import StrEnum

from iriai.cli.framework.command import Command, GlobalOptions, option
from iriai.cli.framework.standard_streams import print_document
from iriai.cli.framework.table import Column, date_text, print_table, size_text, span_text
from iriai.model.problem import UsageProblem
from iriai.model.units import parse_duration
from iriai.wire.reports import AskUsage, UsageRow

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}.*")
_COLUMNS: tuple[Column[UsageRow], ...] = (
    Column("Job", lambda row: row.job, style="bold"),
    Column("Account", lambda row: f"{row.group}/{row.user}", style="bold", shrinks=True),
    Column("Tasks", lambda row: f"{row.tasks:,}", right=True),
    Column("Failed", lambda row: f"{row.failed:,}" if row.failed else "", right=True, style="red"),
    Column("Cpu", lambda row: span_text(row.cpu_s), right=True),
    Column("Took", lambda row: span_text(row.elapsed_s), right=True),
    Column("Charge", lambda row: span_text(row.charge_s), right=True),
    Column("Back", lambda row: span_text(row.returned_s) if row.returned_s else "", right=True),
    Column("Memory", lambda row: size_text(row.memory_peak_bytes), right=True),
    Column("Waited", lambda row: span_text(row.waited_s), right=True),
)


class By(StrEnum):
    """Units that sums are grouped by."""

    ACCOUNT = "account"
    JOB = "job"


def usage(
    options: GlobalOptions,
    since: str | None = option(
        None,
        metavar="WHEN",
        help="Start of the period: how long ago (7d, 12h), or a date (2026-01-31). "
        "\\[default: everything]",
    ),
    mine: bool = option(False, "--mine", help="Only your own usage."),
    by: By = option(By.ACCOUNT, help="Group the sums by account or by job."),
) -> None:
    """Show resources used: CPU time, time, charge, peak memory, mean waiting time.

    Operators see the usage of everyone, others their own; 'iriai shares' shows how each account
    stands. The charge counts in the draw; there it decays with time, and here it does not. Back is
    what was returned of it for tasks that owners of machines ended.
    """
    since_wall_s = 0.0 if since is None else parse_since(since, time.time())
    answer = options.ask(AskUsage(since_wall_s, everyone=not mine, by=by))
    if options.as_json:
        print_document(answer)
    elif answer.rows:
        print_table(_COLUMNS, answer.rows)
    else:
        print("Nothing has finished in that time.", file=sys.stderr)
    from_wall_s = answer.history_from_wall_s
    if from_wall_s is not None and since_wall_s < from_wall_s and not options.as_json:
        day = date_text(from_wall_s)
        print(f"Some of what ended before {day} is deleted, and not counted.", file=sys.stderr)


def parse_since(text: str, now_wall_s: float) -> float:
    """Return the time that `text` names: a span before now, or a date.

    Raises:
        UsageProblem: it is neither.
    """
    from datetime import datetime

    try:
        if _DATE.fullmatch(text):
            return datetime.fromisoformat(text).timestamp()
        return now_wall_s - parse_duration(text)
    except (ValueError, OverflowError, UsageProblem):
        raise UsageProblem(
            "bad-time",
            f"'{text}' is not a time in the past",
            "give how long ago, as 7d or 12h, or a date, as 2026-01-31 or 2026-01-31T14:00",
        ) from None


app = Command(
    usage,
    ("iriai usage", "everyone, since the beginning"),
    ("iriai usage --since 7d --mine", "your own, of the last week"),
    ("iriai usage --by job --since 2026-01-31", "each job since a date"),
)
