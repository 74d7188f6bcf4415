"""Requests about machines, and the request of a back end for a link; part of `requests`."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, UnsetType

from iriai.model.ad import Value
from iriai.model.bounds import (
    Count,
    Expression,
    Many,
    Name,
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
from iriai.wire.exchange import ClientAnswer, ClientRequest, Done, Query


class AdRow(msgspec.Struct, frozen=True):
    """One machine's current ad."""

    name: Name
    attributes: Annotated[dict[Words, Value], Many]
    """By HTCondor's names (docs/spec/007)."""
    requirements: Expression
    """What its owner requires of jobs; empty: nothing."""
    rank: Expression
    cluster: Name = ""
    """Of a site of several clusters that which it belongs to."""


class AdList(ClientAnswer, frozen=True, tag="ad-list"):
    """Answer to `AskAds`, by name."""

    rows: Annotated[tuple[AdRow, ...], Many]
    note: Words = ""
    """Whose are missing, and why; empty: these are all."""


class AskAds(Query[AdList], frozen=True, tag="ask-ads"):
    """The ads of all machines that this one knows, or of one."""

    machine: Expression = ""


class ClauseRow(msgspec.Struct, frozen=True):
    """One of the clauses that must all hold."""

    text: Words
    machines: Count
    """On how many it holds, whatever the others do."""


class MatchRow(msgspec.Struct, frozen=True):
    """One machine."""

    machine: Name
    matches: bool
    failing: Annotated[tuple[tuple[Words, Words], ...], Many]
    """Clauses that do not hold there, and what they saw."""
    owner: Annotated[tuple[tuple[Words, Words], ...], Many]
    """The same of what its owner requires of the job."""
    cluster: Name = ""
    """Of a site of several clusters that which it belongs to."""


class MatchTable(ClientAnswer, frozen=True, tag="match-table"):
    """Answer to `AskMatch`; machines that match first, then by how little is missing."""

    requirements: Expression
    """As it was understood."""
    clauses: Annotated[tuple[ClauseRow, ...], Many]
    rows: Annotated[tuple[MatchRow, ...], Many]
    note: Words = ""
    """Which clusters' machines are missing, and why; empty: none are."""


class AskMatch(Query[MatchTable], frozen=True, tag="ask-match"):
    """Which machines a job of the asking user with these requirements could run on now."""

    requirements: Text


class NodeRow(msgspec.Struct, frozen=True):
    """One machine that runs tasks."""

    name: Name
    state: Word
    """`up`, `drained`, `away` (no link) or `unavailable`."""
    reason: Words
    """Why nothing can be started there; empty where it can."""
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
    """That run or are about to."""
    link: Word
    """How it is reached: `here`, `up` or `down`."""
    differs: Annotated[tuple[Words, ...], Many] = ()
    """What was observed that does not go with what the machine says of itself."""
    member: Word = ""
    """What its cluster takes it for: `alive`, `suspect`, `dead` or `left`; empty outside of one."""
    cluster: Name = ""
    is_broker: bool = False
    heard_s: Seconds | None = None
    """Since something was last heard of it; None: nothing was, or it is the one that answers."""
    named: Annotated[tuple[tuple[Name, SizeBytes, Whole], ...], Many] | UnsetType = UNSET
    """Of each resource that it has by name: the name, how much, and how much is free."""


class NodeTable(ClientAnswer, frozen=True, tag="node-table"):
    """Answer to `AskNodes`, by name."""

    rows: Annotated[tuple[NodeRow, ...], Many]
    note: Words = ""
    """What of it is not known now, and why; empty: this is all."""


class AskNodes(Query[NodeTable], frozen=True, tag="nodes"):
    """The machines that this one knows: a front end all of its back ends, a back end itself."""


class Drain(ClientRequest[Done], frozen=True, tag="drain"):
    """Start nothing more on a machine (empty: on this one); what runs goes on. For operators."""

    node: Name
    reason: Words


class Resume(ClientRequest[Done], frozen=True, tag="resume"):
    """Let a drained machine (empty: this one) start tasks again. For operators."""

    node: Name


class Forget(ClientRequest[Done], frozen=True, tag="forget"):
    """A back end is gone for good: it is listed no more. For operators of its front end."""

    node: Name


class Linked(ClientAnswer, frozen=True, tag="linked"):
    """Answer to `Link`: what follows on this connection are frames of `wire.links`."""

    name: Name
    """The front end's machine."""
    spool: Words
    """Directory of the output of followed tasks."""


class Link(ClientRequest[Linked], frozen=True, tag="link"):
    """Make this connection a link: a back end's request.

    Only for root, the daemon's user and the owner of the front end's state directory.
    """

    is_local = True

    name: Name
    """The machine's."""
    identity: Word
    """Of its state directory: two machines of one name are told apart by it."""
    parts_version: Count
    """`wire.parts.PARTS_VERSION`."""
    version: Name
    """Of iriai, for people."""


class LinkRow(msgspec.Struct, frozen=True):
    """The state of a link with another machine."""

    machine: Name
    """Its name; of a front end that never answered, empty."""
    is_up: bool
    words: Words
    """Since when, or why not."""
    way: Word = "host"
    """`host` (within it), `network`, or `relay` (over a network, through another machine)."""
    sent_bytes: SizeBytes = 0
    """Over a network, since the daemon began."""
    received_bytes: SizeBytes = 0
    offset_s: Span | None = None
    """The other machine's wall clock less this one's; None where it is not known."""
    offset_error_s: Seconds = 0.0
    """By how much that may be wrong."""


class MemberRow(msgspec.Struct, frozen=True):
    """A machine of the cluster, as this one takes it."""

    name: Name
    cluster: Name
    state: Word
    """`alive`, or `suspect`: it did not answer lately."""
    addresses: Annotated[tuple[Name, ...], Many]
    is_outward_only: bool
    """Whether it is reached through others alone."""
    incarnation: Count = 0
    """Of what it says of itself: higher each time that it came up again, or was doubted."""
    cluster_name: Name = ""
    """Of the site's several clusters that which it belongs to; empty where it names none."""
