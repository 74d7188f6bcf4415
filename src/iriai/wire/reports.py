"""Reports of a daemon about itself and its machine; part of `requests`."""

from __future__ import annotations

from typing import Annotated

import msgspec

from iriai.model.bounds import (
    Amount,
    Code,
    Count,
    Many,
    Name,
    Real,
    Seconds,
    SizeBytes,
    Span,
    Speed,
    Weight,
    Whole,
    Word,
    Words,
)
from iriai.wire.exchange import ClientAnswer, Query
from iriai.wire.machines import LinkRow, MemberRow


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


class ClusterSight(msgspec.Struct, frozen=True):
    """A cluster as one of its machines sees it."""

    name: Name
    members: Annotated[dict[Word, Count], Many]
    """How many there are by what they are taken for: alive (as itself), suspect, dead, left."""
    brokers: Annotated[tuple[Name, ...], Many]
    """Whom it takes for the broker of its own cluster."""
    news_half_s: Seconds | None
    """How old half of what others published was, at most, when it came here; None: nothing came."""
    news_late_s: Seconds | None
    """The same of 95 %: so long it takes until all know."""
    news_rounds: Weight | None
    """The latter in rounds of the gossip."""
    sent_bytes_per_s: Amount
    """To all machines, over about a minute; likewise received."""
    received_bytes_per_s: Amount
    begun: Count
    """Attempts of jobs of this home that began, on all machines, since the daemon did."""
    claims_refused: Annotated[dict[Words, Count], Many]
    """Claims of this home that a machine refused since then, by the rule that said no."""
    offset_worst_s: Span | None
    """Of the machine whose clock is farthest from this one's; None: none is known."""
    offset_machine: Name
    steadiness: Weight
    """The part of the time that this machine is there, as it tells others."""


class LimitedRow(msgspec.Struct, frozen=True):
    """A user who was refused something, or slowed, by one of the `[limits]`."""

    user: Name
    limit: Name
    """Its key."""
    times: Count
    """Since the daemon began."""


class StatusReport(ClientAnswer, frozen=True, tag="status-report"):
    """Answer to `Status`."""

    home: Name
    version: Words
    state_directory: Words
    socket: Words
    daemon_pid: Code
    launcher_pid: Code | None
    supervisor_pid: Code | None
    mode: Word
    """`system` (root, every user) or `single-user`."""
    order: Word
    up_s: Seconds
    capacity: Annotated[dict[Name, SizeBytes], Many]
    free: Annotated[dict[Name, Whole], Many]
    speed: Speed
    jobs: Count
    waiting: Count
    active: Count
    load: Weight
    trouble: Annotated[tuple[Words, ...], Many]
    """What keeps the machine from working as it should; empty: nothing."""
    parts: Annotated[tuple[Name, ...], Many] = ("node", "home", "broker")
    links: Annotated[tuple[LinkRow, ...], Many] = ()
    """With other machines: of a front end those that were ever linked, of a back end the one; of a
    member of a cluster those that there was anything to say to."""
    members: Annotated[tuple[MemberRow, ...], Many] = ()
    """The other machines of the cluster."""
    broker: Name = ""
    """The machine that is the broker, as this one sees it."""
    cluster_name: Name = ""
    """Of the site's several clusters that which the machine belongs to; empty: it names none."""
    cluster: ClusterSight | None = None
    """None: it is in none."""
    faults: Count = 0
    """Errors of ours that ended a connection or a request since the daemon began."""
    limited: Annotated[tuple[LimitedRow, ...], Many] = ()
    """Of whoever asks; operators see all users, the most frequent first."""


class Status(Query[StatusReport], frozen=True, tag="status"):
    """The state of the machine."""


class Finding(msgspec.Struct, frozen=True):
    """One line of `doctor`: `level` ok, note or trouble."""

    subject: Words
    level: Word
    message: Words
    hint: Words = ""


class DoctorReport(ClientAnswer, frozen=True, tag="doctor-report"):
    """Answer to `Doctor`."""

    findings: Annotated[tuple[Finding, ...], Many]


class Doctor(Query[DoctorReport], frozen=True, tag="doctor"):
    """The mechanism of each limit, and what is missing."""


class Setting(msgspec.Struct, frozen=True):
    """One value; `source` is `default`, `measured`, or the file."""

    key: Name
    value: Words
    source: Words


class ConfigurationTable(ClientAnswer, frozen=True, tag="configuration-table"):
    """Answer to `ShowConfiguration`."""

    settings: Annotated[tuple[Setting, ...], Many]


class ShowConfiguration(Query[ConfigurationTable], frozen=True, tag="show-configuration"):
    """The values in force, and where each comes from."""
