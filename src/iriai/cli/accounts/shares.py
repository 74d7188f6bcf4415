"""`iriai shares`: the share of each account, by rights and as used."""

from __future__ import annotations

import sys

from iriai.cli.framework.command import Command, GlobalOptions
from iriai.cli.framework.standard_streams import print_document, remark
from iriai.cli.framework.table import Column, percent_text, print_table, span_text
from iriai.wire.reports import ShareRow, Shares, ShareTable

NO_ACCOUNTS = "No account has used anything yet, and none waits."


def _returned_text(row: ShareRow) -> str:
    return span_text(row.returned_s) if row.returned_s >= 1 else ""


COLUMNS: tuple[Column[ShareRow], ...] = (
    Column("Account", lambda row: f"{row.group}/{row.user}", style="bold", shrinks=True),
    Column("Right", lambda row: f"{row.right:g}", right=True),
    Column("Used", lambda row: span_text(row.usage_s), right=True),
    Column("Ahead", lambda row: span_text(row.advance_s) if row.advance_s >= 1 else "", right=True),
    Column("Back", _returned_text, right=True),
    Column("Now", lambda row: f"{row.present_rate:.3g}" if row.present_rate else "", right=True),
    Column("Waiting", lambda row: str(row.waiting_tasks or ""), right=True),
    Column("Running", lambda row: str(row.running_cpus or ""), right=True),
    Column("Wanted", lambda row: percent_text(row.share_wanted), right=True),
    Column("Got", lambda row: percent_text(row.share_got), right=True),
    Column("Next", lambda row: percent_text(row.rate), right=True, style="cyan"),
)


def shares(options: GlobalOptions) -> None:
    """Show what each account is entitled to, what it got, and how likely it is drawn next.

    Wanted is the share by rights, among accounts with something to run; Got is the share of recent
    usage, or of present use where that is evened; Next is the chance in the next draw. Used is in
    CPU seconds and decays with time; Ahead is the part of it that was paid for urgency (-p). Now is
    what is charged in a second at present, where that is evened. Back is what was returned of the
    charges of tasks that owners of machines ended, and is not in Used.
    """
    answer = options.ask(Shares())
    if options.as_json:
        print_document(answer)
        return
    if not answer.rows:
        print(NO_ACCOUNTS, file=sys.stderr)
        return
    print_table(COLUMNS, answer.rows)
    if answer.note:
        remark(answer.note)
    print("\n".join(order_lines(answer)))


def order_lines(table: ShareTable) -> list[str]:
    """Return what decides about the shares, a sentence each."""
    lines = [f"Order {table.order}; {_evened_text(table)}."]
    if table.offpeak_factor is not None:
        lines.append(f"It is off-peak: usage is charged {table.offpeak_factor:g} times.")
    return lines


def _evened_text(table: ShareTable) -> str:
    if table.even == "rate":
        return "what accounts use now is evened, not what they have used"
    if table.window_s is not None:
        return f"usage of the last {span_text(table.window_s)} counts"
    return f"usage counts half after {span_text(table.half_life_s)}"


app = Command(
    shares,
    ("iriai shares", "whose turn it is, and why"),
    ("watch iriai shares", "how it changes"),
    ("iriai shares --json", "for a program, as fractions of 1"),
)
