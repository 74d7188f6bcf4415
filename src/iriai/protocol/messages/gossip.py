"""Messages between the membership and the directory of machines (docs/spec/006).

Each says who sends it, when, and what the receiver does. Any of them may be lost, repeated, late or
wrong with no effect but delay.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from iriai.model.bounds import Bits, Count, KeyBytes, Many, Name
from iriai.protocol.messages.entries import Carried, DigestRow

# --- membership ----------------------------------------------------------------------------------


class Doubt(msgspec.Struct, frozen=True, array_like=True):
    """A doubt that a machine is online; void for a later incarnation of it."""

    machine: Name
    incarnation: Count
    is_dead: bool
    """Whether its time to answer is over."""
    by: Name
    """The doubting machine: the more machines doubt, the less time the doubted one has."""
    signature: KeyBytes = b""
    """The signature of `by`; empty in messages to the doubted machine, which answers any doubt."""


class News(msgspec.Struct, frozen=True, array_like=True):
    """News of the membership, added to each of its messages."""

    members: Annotated[tuple[Carried, ...], Many] = ()
    """Entries of kind `member`."""
    doubts: Annotated[tuple[Doubt, ...], Many] = ()


class Probe(msgspec.Struct, frozen=True):
    """Are you there? One member each period, each in turn. The receiver answers `ProbeAnswer`."""

    number: Count
    """The sender's own; the answer repeats it."""
    news: News = News()


class ProbeFor(msgspec.Struct, frozen=True):
    """To some others, when a probe was not answered in time: try `machine` for me.

    The receiver probes it, and says `ProbeAnswer` or, some time before its asker gives up,
    `ProbeMissed`.
    """

    number: Count
    machine: Name
    news: News = News()


class ProbeAnswer(msgspec.Struct, frozen=True):
    """Answer to `Probe` at once, to `ProbeFor` when the machine answered: it is online."""

    number: Count
    news: News = News()


class ProbeMissed(msgspec.Struct, frozen=True):
    """Answer to `ProbeFor`: no answer so far. It shows the asker that its own network works."""

    number: Count
    news: News = News()


# --- directory -----------------------------------------------------------------------------------


class Offer(msgspec.Struct, frozen=True, omit_defaults=True):
    """To one other each period: what I hold, in one number, and what I learned lately.

    The receiver answers `Counteroffer`. Between clusters of a site only the entries that concern
    all clusters are compared.
    """

    checksum: Bits
    lately: Annotated[tuple[DigestRow, ...], Many] = ()
    cluster_name: Name = ""
    """The sender's, as it names it itself (`members.Member`)."""
    is_site: bool = False
    """Whether it is of the entries that concern all clusters: the sender does not take the
    receiver for a member of its own."""


class Counteroffer(msgspec.Struct, frozen=True, omit_defaults=True):
    """The answer to `Offer`.

    The receiver sends what is wanted and asks for what it lacks; where the rest differs too, it
    sends an `Outline`.
    """

    checksum: Bits
    """The checksum of the sender's table with the wanted entries."""
    lately: Annotated[tuple[DigestRow, ...], Many] = ()
    """Rows that the sender learned lately and the receiver did not name."""
    wanted: Annotated[tuple[DigestRow, ...], Many] = ()
    is_site: bool = False
    """Whether it is of the entries that concern all clusters; so below."""


class Wanted(msgspec.Struct, frozen=True):
    """Request for entries. Answered with one or more `Entries`."""

    rows: Annotated[tuple[DigestRow, ...], Many]


class Entries(msgspec.Struct, frozen=True):
    """Entries that the receiver lacks. It verifies each, and stores those that are later."""

    entries: Annotated[tuple[Carried, ...], Many]


class Outline(msgspec.Struct, frozen=True, omit_defaults=True):
    """The sender's table as a checksum for each bucket of keys. Answered with `Detail`."""

    checksums: Annotated[tuple[Bits, ...], Many]
    is_site: bool = False


class Detail(msgspec.Struct, frozen=True, omit_defaults=True):
    """The rows in the buckets that differ, as many as a message takes.

    The receiver asks for what is later (`Wanted`), and sends what the other lacks (`Entries`).
    """

    buckets: Annotated[tuple[Count, ...], Many]
    """The buckets whose rows are given in full."""
    rows: Annotated[tuple[DigestRow, ...], Many]
    is_site: bool = False


# --- machines of other clusters ------------------------------------------------------------------


class Locate(msgspec.Struct, frozen=True):
    """To a gateway of another cluster, or to who named the machine: how is this one reached?

    Whoever has its entry answers `Located`; nobody else says anything.
    """

    machine: Name


class Located(msgspec.Struct, frozen=True):
    """The answer to `Locate`; of itself each machine sends it over a new link between clusters."""

    entries: Annotated[tuple[Carried, ...], Many]
    """Of each machine the entries of kind `certificate` and `member`: the one that was asked for,
    and its first relays where it accepts no connections."""


ToMembership = Probe | ProbeFor | ProbeAnswer | ProbeMissed
ToDirectory = Offer | Counteroffer | Wanted | Entries | Outline | Detail | Locate | Located
PeerMessage = ToMembership | ToDirectory
