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
    """Someone does not believe that a machine is there; void for a later incarnation of it."""

    machine: Name
    incarnation: Count
    is_dead: bool
    """It had its time to answer."""
    by: Name
    """Who doubts: the more independent ones do, the less time it has."""
    signature: KeyBytes = b""
    """Of `by`. None where it is told to the doubted machine, which answers whoever asks."""


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
    """To `Probe` at once, to `ProbeFor` when the machine answered: it is there."""

    number: Count
    news: News = News()


class ProbeMissed(msgspec.Struct, frozen=True):
    """To `ProbeFor`: no answer so far. The asker learns from it that its own network works."""

    number: Count
    news: News = News()


# --- directory -----------------------------------------------------------------------------------


class Offer(msgspec.Struct, frozen=True):
    """To one other each period: what I hold, in one number, and what I learned lately.

    The receiver answers `Counteroffer`.
    """

    checksum: Bits
    lately: Annotated[tuple[DigestRow, ...], Many] = ()


class Counteroffer(msgspec.Struct, frozen=True):
    """The answer to `Offer`.

    The receiver sends what is wanted and asks for what it lacks; where the rest differs too, it
    sends an `Outline`.
    """

    checksum: Bits
    """Of what the sender will hold when it has got what it wants."""
    lately: Annotated[tuple[DigestRow, ...], Many] = ()
    """What it learned lately and the other did not name."""
    wanted: Annotated[tuple[DigestRow, ...], Many] = ()


class Wanted(msgspec.Struct, frozen=True):
    """Send me these. Answered with `Entries`, as many messages as it takes."""

    rows: Annotated[tuple[DigestRow, ...], Many]


class Entries(msgspec.Struct, frozen=True):
    """What the other lacks, or is to know at once. Each is verified, and kept where it is later."""

    entries: Annotated[tuple[Carried, ...], Many]


class Outline(msgspec.Struct, frozen=True):
    """What I hold, as a checksum for each bucket of keys. Answered with `Detail`."""

    checksums: Annotated[tuple[Bits, ...], Many]


class Detail(msgspec.Struct, frozen=True):
    """The rows in the buckets that differ, as many as a message takes.

    The receiver asks for what is later (`Wanted`), and sends what the other lacks (`Entries`).
    """

    buckets: Annotated[tuple[Count, ...], Many]
    """Those that are told in full."""
    rows: Annotated[tuple[DigestRow, ...], Many]


ToMembership = Probe | ProbeFor | ProbeAnswer | ProbeMissed
ToDirectory = Offer | Counteroffer | Wanted | Entries | Outline | Detail
PeerMessage = ToMembership | ToDirectory
