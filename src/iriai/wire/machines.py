"""Requests about machines, and the request of a back end for a link; part of `envelopes`."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, UnsetType

from iriai.model.ad import Value
from iriai.model.admission_rules import ALL
from iriai.model.bounds import (
    Amount,
    Count,
    Expression,
    Few,
    Many,
    Name,
    Percent,
    Seconds,
    SizeBytes,
    Span,
    Speed,
    Text,
    Weight,
    Whole,
    Word,
    Words,
)
from iriai.model.reservable import Part, ReservableBy
from iriai.wire.exchange import ClientAnswer, ClientRequest, Done, Query, Right


class AdRow(msgspec.Struct, frozen=True):
    """The current ad of a machine."""

    name: Name
    attributes: Annotated[dict[Words, Value], Many]
    """By HTCondor's names (docs/spec/007)."""
    requirements: Expression
    """What its owner requires of jobs; empty: nothing."""
    rank: Expression
    cluster: Name = ""
    """Its cluster, in a site of several."""


class AdList(ClientAnswer, frozen=True, tag="ad-list"):
    """Answer to `AskAds`, by name."""

    rows: Annotated[tuple[AdRow, ...], Many]
    note: Words = ""
    """Which machines are missing, and why; empty if none are."""


class AskAds(Query[AdList], frozen=True, tag="ask-ads"):
    """Ask for the ads of all known machines, or of one."""

    machine: Expression = ""


class ClauseRow(msgspec.Struct, frozen=True):
    """One of the required clauses."""

    text: Words
    machines: Count
    """The number of machines on which it holds."""


class MatchRow(msgspec.Struct, frozen=True):
    """One machine."""

    machine: Name
    matches: bool
    failing: Annotated[tuple[tuple[Words, Words], ...], Many]
    """Clauses that do not hold there, with the values of their attributes."""
    owner: Annotated[tuple[tuple[Words, Words], ...], Many]
    """The same for the requirements of its owner."""
    cluster: Name = ""
    """Its cluster, in a site of several."""


class MatchTable(ClientAnswer, frozen=True, tag="match-table"):
    """Answer to `AskMatch`; machines that match first, then by how little is missing."""

    requirements: Expression
    """The requirements in canonical form."""
    clauses: Annotated[tuple[ClauseRow, ...], Many]
    rows: Annotated[tuple[MatchRow, ...], Many]
    note: Words = ""
    """Which clusters' machines are missing, and why; empty if none are."""


class AskMatch(Query[MatchTable], frozen=True, tag="ask-match"):
    """Which machines a job of the asking user with these requirements could run on now."""

    is_of_home = True

    requirements: Text


class NodeRow(msgspec.Struct, frozen=True):
    """One machine that runs tasks."""

    name: Name
    state: Word
    """`up`, `drained`, `away` (no link) or `unavailable`."""
    reason: Words
    """Why nothing can be started there; empty if something can."""
    cpus: Count
    free_cpus: Whole
    memory_bytes: SizeBytes
    free_memory_bytes: Whole
    gpus: Count
    free_gpus: Whole
    load: Weight
    foreign_load: Weight
    """The part of the load that is not of our tasks."""
    speed: Speed
    tasks: Count
    """Running and claimed tasks."""
    link: Word
    """How it is reached: `here`, `up` or `down`."""
    differs: Annotated[tuple[Words, ...], Many] = ()
    """Observations that contradict the machine's own reports."""
    member: Word = ""
    """Its membership state: `alive`, `suspect`, `dead` or `left`; empty outside of a cluster."""
    cluster: Name = ""
    is_broker: bool = False
    heard_s: Seconds | None = None
    """Time since its last message; None if there was none, or it is the answering machine."""
    named: Annotated[tuple[tuple[Name, SizeBytes, Whole], ...], Many] | UnsetType = UNSET
    """Of each resource that it has by name: the name, how much, and how much is free."""
    reservable: Part = 1.0
    """The part of it that its owner lets be reserved at once."""
    reservable_by: ReservableBy = (ALL,)
    """The users and groups who may reserve it; `all`: everybody; nobody: none may."""


class NodeTable(ClientAnswer, frozen=True, tag="node-table"):
    """Answer to `AskNodes`, by name."""

    rows: Annotated[tuple[NodeRow, ...], Many]
    note: Words = ""
    """What is missing, and why; empty if nothing is."""


class AskNodes(Query[NodeTable], frozen=True, tag="nodes"):
    """The machines of the cluster; a back end shows itself alone."""


class PoolKind(msgspec.Struct, frozen=True):
    """What machines are that are alike."""

    architecture: Words
    system: Words
    processor: Words
    """The kernel's name of the model."""
    processors: Count
    """As many as each machine measured, offered or not; 0: it did not say."""
    machines: Count


class PoolRow(msgspec.Struct, frozen=True):
    """Machines from which a job on several machines may take all of its own."""

    name: Name
    """Empty: of those that named none."""
    kinds: Annotated[tuple[PoolKind, ...], Few]
    """The commonest first, and only so many as are worth reading."""
    machines: Annotated[tuple[Name, ...], Many]
    """By name."""
    available: Count
    """How many of them take tasks; what is free, loads and speeds are of these."""
    cpus: Count
    """Of all."""
    free_cpus: Count
    load: Amount
    """The sum of their load averages, or of what is claimed if it is more."""
    speed: Amount
    """The sum of cpus times speed. The ranks of a job go where load / speed is least."""
    cluster: Name = ""
    """Its cluster, in a site of several."""


class PoolTable(ClientAnswer, frozen=True, tag="pool-table"):
    """Answer to `AskPools`, by name."""

    rows: Annotated[tuple[PoolRow, ...], Many]
    note: Words = ""
    """Which machines are missing, and why; empty if none are."""


class AskPools(Query[PoolTable], frozen=True, tag="ask-pools"):
    """The pools of the cluster; a back end shows itself alone."""


class QueueRow(msgspec.Struct, frozen=True):
    """A queue, and what is in it."""

    number: Count
    state: Word
    """active, enabled, disabled; gone: jobs wait in it, and it is not there any more."""
    group: Name = ""
    """The Unix group that may use it; empty: all."""
    time_limit_s: Seconds | None = None
    """Of a job that names none; None: as in `[jobs]`."""
    time_limit_max_s: Seconds | None = None
    waiting: Count = 0
    """Tasks."""
    jobs: Count = 0
    longest_wait_s: Amount = 0.0
    """How long the job that has waited longest has."""
    cpu_limit_s: Seconds | None = None
    """The most CPU time of a task; None: no limit."""
    is_usable: bool = False
    """Whether the asking user may put jobs into it."""
    memory_percent: Percent | None = None
    """The part of a machine's memory that a job may take; None: no limit."""
    disk_percent: Percent | None = None
    """The same of disk."""
    mode: Word = "shared"
    """What its running tasks do while a higher queue needs their cpus: shared, gang, exclusive."""
    residence_s: Seconds | None = None
    """How long a task runs in it before it goes on in the next one; None: it stays."""
    charge_factor: Weight = 1.0
    """Charges of tasks that run in it are multiplied by it."""
    running: Count = 0
    """Tasks that run or stand frozen, or were matched."""


class QueueTable(ClientAnswer, frozen=True, tag="queue-table"):
    """Answer to `AskQueues`, in the order in which they are served."""

    rows: Annotated[tuple[QueueRow, ...], Few]
    note: Words = ""
    """Why it is not known what waits; empty if it is."""


class AskQueues(Query[QueueTable], frozen=True, tag="ask-queues"):
    """The queues of the cluster."""


class SetSection(ClientRequest[Done], frozen=True, tag="set-section"):
    """Set keys of a section that changes live, of a machine without a cluster. For operators.

    Without any, what was set is forgotten.
    """

    asked_by = Right.OPERATOR
    purpose = "change queues, pools or gangs"

    section: Word
    """`queues`, `pools` or `gang`."""
    name: Name
    """Of the queue or pool; else empty."""
    settings: Annotated[tuple[tuple[Name, Text], ...], Few]
    """Keys of the section and their values, as in the file without quotes."""


class Drain(ClientRequest[Done], frozen=True, tag="drain"):
    """Start nothing more on a machine (empty: on this one); what runs goes on. For operators."""

    asked_by = Right.OPERATOR
    purpose = "drain or resume machines"

    node: Name
    reason: Words


class Resume(ClientRequest[Done], frozen=True, tag="resume"):
    """Resume a drained machine (empty: this one). For operators."""

    asked_by = Right.OPERATOR
    purpose = "drain or resume machines"

    node: Name


class Forget(ClientRequest[Done], frozen=True, tag="forget"):
    """Remove a machine from the broker's list that is no member. For operators."""

    asked_by = Right.OPERATOR
    purpose = "remove machines from the list"

    node: Name


class LinkRow(msgspec.Struct, frozen=True):
    """The state of a link with another machine."""

    machine: Name
    is_up: bool
    words: Words
    """Since when it is up, or why it is down."""
    way: Word = "network"
    """`network` (without another machine between), or `relay`."""
    sent_bytes: SizeBytes = 0
    """Since the daemon began."""
    received_bytes: SizeBytes = 0
    offset_s: Span | None = None
    """The other machine's wall clock less this one's; None where it is not known."""
    offset_error_s: Seconds = 0.0
    """The largest error of `offset_s`."""


class MemberRow(msgspec.Struct, frozen=True):
    """A machine of the cluster, with the state that this one assigns to it."""

    name: Name
    cluster: Name
    state: Word
    """`alive`, or `suspect`: it did not answer lately."""
    addresses: Annotated[tuple[Name, ...], Many]
    is_outward_only: bool
    """Whether it can only be reached through relays."""
    incarnation: Count = 0
    """The incarnation of its membership entry."""
    cluster_name: Name = ""
    """Its cluster in a site of several; empty if it names none."""
