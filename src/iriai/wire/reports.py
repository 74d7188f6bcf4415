"""Reports of a daemon about itself and its machine; part of `envelopes`."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

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
from iriai.model.turn import ROWS_MAX
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
    """The part of the current usage of the listed accounts, or of what they use now (`even`)."""
    rate: Weight | None
    advance_s: Amount = 0.0
    """What is left of what was paid for urgency, beyond the ordinary price: a part of `usage_s`."""
    present_rate: Amount = 0.0
    """What its tasks are charged in a second now, where that is evened; else 0."""
    returned_s: Amount = 0.0
    """What is left of charges that were returned for what owners of machines destroyed; they are
    not in `usage_s`."""


class ShareTable(ClientAnswer, frozen=True, tag="share-table"):
    """Answer to `Shares`."""

    order: Word
    half_life_s: Seconds
    rows: Annotated[tuple[ShareRow, ...], Many]
    offpeak_factor: Weight | None = None
    """The factor of charges now, off-peak; None at peak."""
    window_s: Seconds | None = None
    """The window of usage, instead of the half-life; None if there is none."""
    note: Words = ""
    """What is missing, and why; empty if nothing is."""
    even: Word = "total"
    """What is evened among accounts: `total`, or `rate`."""


class Shares(Query[ShareTable], frozen=True, tag="shares"):
    """Ask for shares, usage and chances of all accounts."""

    is_of_home = True


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
    returned_s: Amount = 0.0
    """What of the charge was returned, for tasks that owners of machines ended."""


class UsageTable(ClientAnswer, frozen=True, tag="usage-table"):
    """Answer to `AskUsage`."""

    rows: Annotated[tuple[UsageRow, ...], Many]
    history_from_wall_s: Seconds | None = None
    """Attempts that ended before may be deleted and not counted; None if none are."""


class AskUsage(Query[UsageTable], frozen=True, tag="ask-usage"):
    """Sums of the history since a moment, per account, or per job (`by` job)."""

    is_of_home = True

    since_wall_s: Real = 0.0
    everyone: bool = True
    by: Word = "account"


class ClusterSight(msgspec.Struct, frozen=True):
    """A cluster as one of its machines sees it."""

    name: Name
    members: Annotated[dict[Word, Count], Many]
    """The number of members by state: alive (this one included), suspect, dead, left."""
    brokers: Annotated[tuple[Name, ...], Many]
    """The machines that it considers broker of its own cluster."""
    news_half_s: Seconds | None
    """How old half of what others published was, at most, when it came here; None: nothing came."""
    news_late_s: Seconds | None
    """The same of 95 %: so long it takes until all know."""
    news_rounds: Weight | None
    """`news_late_s` in rounds of the gossip."""
    sent_bytes_per_s: Amount
    """To all machines, over about a minute; likewise received."""
    received_bytes_per_s: Amount
    begun: Count
    """Attempts of jobs of this home that began, on all machines, since the daemon did."""
    claims_refused: Annotated[dict[Words, Count], Many]
    """Refused claims of this home since then, by the refusing rule."""
    offset_worst_s: Span | None
    """Of the machine whose clock is farthest from this one's; None: none is known."""
    offset_machine: Name
    steadiness: Weight
    """The published steadiness of this machine."""


class LimitedRow(msgspec.Struct, frozen=True):
    """A user who was refused something, or slowed, by one of the `[limits]`."""

    user: Name
    limit: Name
    """The key of the limit."""
    times: Count
    """Refusals since the daemon began."""


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
    """Problems of the machine."""
    parts: Annotated[tuple[Name, ...], Many] = ("node", "home", "broker")
    links: Annotated[tuple[LinkRow, ...], Many] = ()
    """With other machines: of a front end those that were ever linked, of a back end the one; of a
    member of a cluster those that there was anything to say to."""
    members: Annotated[tuple[MemberRow, ...], Many] = ()
    """The other machines of the cluster."""
    broker: Name = ""
    """The machine that this one considers the broker."""
    cluster_name: Name = ""
    """The machine's cluster in a site of several; empty if it names none."""
    cluster: ClusterSight | None = None
    """None if it is in no cluster."""
    faults: Count = 0
    """Errors of ours that ended a connection or a request since the daemon began."""
    limited: Annotated[tuple[LimitedRow, ...], Many] = ()
    """Limits that the asking user met (operators: all users), the most frequent first."""
    rc: Words = ""
    """The rc file that this daemon ran, or began to; empty: none."""
    rc_problem: Words = ""
    """Why not all of it."""


class Status(Query[StatusReport], frozen=True, tag="status"):
    """The state of the machine."""


class MachineSlices(msgspec.Struct, frozen=True):
    """What one machine runs in each row of the matrix of gangs: a column of it."""

    machine: Name
    rows: Annotated[tuple[Annotated[tuple[Word, ...], Many], ...], Meta(max_length=ROWS_MAX)]
    """The ids of the tasks of each row, from row 0; a row that is empty, or missing, is idle."""
    always: Annotated[tuple[Word, ...], Many] = ()
    """Those of tasks that run in all rows."""


class GangMatrix(msgspec.Struct, frozen=True):
    """Which tasks run together, and when: rows of time slices by machines."""

    machines: Annotated[tuple[MachineSlices, ...], Many]
    rows_max: Count
    """So many rows there may be at most."""
    quantum_s: Seconds
    """How long each row runs before the next one does."""


class StandingTask(msgspec.Struct, frozen=True):
    """A task of a queue in mode `gang` or `exclusive` that the broker keeps from running."""

    task: Word
    queue: Count
    reason: Word
    """As of a suspension: `higher-queue` or `stopped-queue`."""
    machines: Annotated[tuple[Name, ...], Many] = ()
    """Where it keeps all but its cpus."""


class GangTable(ClientAnswer, frozen=True, tag="gang-table"):
    """Answer to `Gangs`."""

    matrix: GangMatrix
    note: Words = ""
    """What is missing, and why; empty if nothing is."""
    standing: Annotated[tuple[StandingTask, ...], Many] = ()
    """In the order in which they take their cpus again."""


class Gangs(Query[GangTable], frozen=True, tag="gangs"):
    """What takes turns on the machines of the cluster, and what stands."""


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

    measures_owner: bool = False
    """Whether it is measured from now on what an owner keeps of the processors beside tasks; later
    answers have it."""


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
