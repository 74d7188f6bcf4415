"""What clients ask about accounts, and are answered; part of `requests`."""

from __future__ import annotations

import msgspec


class Shares(msgspec.Struct, frozen=True, tag="shares"):
    """What each account wants, has used, and how likely it is drawn next."""


class ShareRow(msgspec.Struct, frozen=True):
    """One account. Shares and rates are fractions of 1, of accounts with something to run."""

    group: str
    user: str
    right: float
    usage_s: float
    """Decayed charge, provisional charges of running tasks included."""
    running_cpus: int
    waiting_tasks: int
    share_wanted: float | None
    share_got: float | None
    """Of the use that counts now, over the accounts listed."""
    rate: float | None
    advance_s: float = 0.0
    """What is left of what was paid for urgency, beyond the ordinary price: a part of `usage_s`."""


class ShareTable(msgspec.Struct, frozen=True, tag="share-table"):
    """Answer to `Shares`."""

    order: str
    half_life_s: float
    rows: tuple[ShareRow, ...]
    offpeak_factor: float | None = None
    """What use costs now, off-peak; None: it is peak."""
    window_s: float | None = None
    """How far back use counts, instead of the half-life; None: there is no window."""
    note: str = ""
    """What of it is not known now, and why; empty: this is all."""


class AskUsage(msgspec.Struct, frozen=True, tag="ask-usage"):
    """Sums of the history since a moment, per account, or per job (`by` job)."""

    since_wall_s: float = 0.0
    everyone: bool = True
    by: str = "account"


class UsageRow(msgspec.Struct, frozen=True):
    """One account's (or job's) sums."""

    group: str
    user: str
    job: str
    tasks: int
    failed: int
    cpu_s: float
    elapsed_s: float
    charge_s: float
    memory_peak_bytes: int
    waited_s: float
    """Mean, between submission and the start of an attempt."""


class UsageTable(msgspec.Struct, frozen=True, tag="usage-table"):
    """Answer to `AskUsage`."""

    rows: tuple[UsageRow, ...]
    history_from_wall_s: float | None = None
    """Of what ended before, some is deleted and not counted; None: nothing is."""
