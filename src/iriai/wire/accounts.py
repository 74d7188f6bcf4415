"""What clients ask about accounts, and are answered; part of `requests`."""

from __future__ import annotations

from typing import Annotated

import msgspec

from iriai.model.bounds import (
    Amount,
    Count,
    Many,
    Name,
    Real,
    Seconds,
    SizeBytes,
    Weight,
    Word,
    Words,
)
from iriai.wire.exchange import ClientAnswer, Query


class ShareRow(msgspec.Struct, frozen=True):
    """One account. Shares and rates are fractions of 1, of accounts with something to run."""

    group: Name
    user: Name
    right: Weight
    usage_s: Amount
    """Decayed charge, provisional charges of running tasks included."""
    running_cpus: Count
    waiting_tasks: Count
    share_wanted: Weight | None
    share_got: Weight | None
    """Of the use that counts now, over the accounts listed."""
    rate: Weight | None
    advance_s: Amount = 0.0
    """What is left of what was paid for urgency, beyond the ordinary price: a part of `usage_s`."""


class ShareTable(ClientAnswer, frozen=True, tag="share-table"):
    """Answer to `Shares`."""

    order: Word
    half_life_s: Seconds
    rows: Annotated[tuple[ShareRow, ...], Many]
    offpeak_factor: Weight | None = None
    """What use costs now, off-peak; None: it is peak."""
    window_s: Seconds | None = None
    """How far back use counts, instead of the half-life; None: there is no window."""
    note: Words = ""
    """What of it is not known now, and why; empty: this is all."""


class Shares(Query[ShareTable], frozen=True, tag="shares"):
    """What each account wants, has used, and how likely it is drawn next."""


class UsageRow(msgspec.Struct, frozen=True):
    """One account's (or job's) sums."""

    group: Name
    user: Name
    job: Word
    tasks: Count
    failed: Count
    cpu_s: Amount
    elapsed_s: Amount
    charge_s: Amount
    memory_peak_bytes: SizeBytes
    waited_s: Amount
    """Mean, between submission and the start of an attempt."""


class UsageTable(ClientAnswer, frozen=True, tag="usage-table"):
    """Answer to `AskUsage`."""

    rows: Annotated[tuple[UsageRow, ...], Many]
    history_from_wall_s: Seconds | None = None
    """Of what ended before, some is deleted and not counted; None: nothing is."""


class AskUsage(Query[UsageTable], frozen=True, tag="ask-usage"):
    """Sums of the history since a moment, per account, or per job (`by` job)."""

    since_wall_s: Real = 0.0
    everyone: bool = True
    by: Word = "account"
