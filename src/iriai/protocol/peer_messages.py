"""Messages between the membership and the directory of machines (docs/spec/006).

Each says who sends it, when, and what the receiver does. Any of them may be lost, repeated, late or
wrong with no effect but delay.
"""

from __future__ import annotations

import msgspec

from iriai.protocol.entries import Carried, Row

# --- membership ----------------------------------------------------------------------------------


class Doubt(msgspec.Struct, frozen=True, array_like=True):
    """Somebody does not believe that a machine is there; void for a later incarnation of it."""

    machine: str
    incarnation: int
    is_dead: bool
    """It had its time to answer."""
    by: str
    """Who doubts: the more independent ones do, the less time it has."""
    signature: bytes = b""
    """Of `by`. None where it is told to the doubted machine, which answers whoever asks."""


class News(msgspec.Struct, frozen=True, array_like=True):
    """What each message of the membership has with it: what others may not know yet."""

    members: tuple[Carried, ...] = ()
    """Entries of kind `member`."""
    doubts: tuple[Doubt, ...] = ()


class Probe(msgspec.Struct, frozen=True):
    """Are you there? One member each period, each in turn. The receiver answers `ProbeAnswer`."""

    number: int
    """The sender's own; the answer repeats it."""
    news: News = News()


class ProbeFor(msgspec.Struct, frozen=True):
    """To some others, when a probe was not answered in time: try `machine` for me.

    The receiver probes it, and says `ProbeAnswer` or, some time before its asker gives up,
    `ProbeMissed`.
    """

    number: int
    machine: str
    news: News = News()


class ProbeAnswer(msgspec.Struct, frozen=True):
    """To `Probe` at once, to `ProbeFor` when the machine answered: it is there."""

    number: int
    news: News = News()


class ProbeMissed(msgspec.Struct, frozen=True):
    """To `ProbeFor`: no answer so far. The asker learns from it that its own network works."""

    number: int
    news: News = News()


# --- directory -----------------------------------------------------------------------------------


class Offer(msgspec.Struct, frozen=True):
    """To one other each period: what I hold, in one number, and what I learned lately.

    The receiver answers `Counteroffer`.
    """

    checksum: int
    lately: tuple[Row, ...] = ()


class Counteroffer(msgspec.Struct, frozen=True):
    """The answer to `Offer`.

    The receiver sends what is wanted and asks for what it lacks; where the rest differs too, it
    sends an `Outline`.
    """

    checksum: int
    """Of what the sender will hold when it has got what it wants."""
    lately: tuple[Row, ...] = ()
    """What it learned lately and the other did not name."""
    wanted: tuple[Row, ...] = ()


class Wanted(msgspec.Struct, frozen=True):
    """Send me these. Answered with `Entries`, as many messages as it takes."""

    rows: tuple[Row, ...]


class Entries(msgspec.Struct, frozen=True):
    """What the other lacks, or is to know at once. Each is verified, and kept where it is later."""

    entries: tuple[Carried, ...]


class Outline(msgspec.Struct, frozen=True):
    """What I hold, as a checksum for each bucket of keys. Answered with `Detail`."""

    checksums: tuple[int, ...]


class Detail(msgspec.Struct, frozen=True):
    """The rows in the buckets that differ, as many as a message takes.

    The receiver asks for what is later (`Wanted`), and sends what the other lacks (`Entries`).
    """

    buckets: tuple[int, ...]
    """Those that are told in full."""
    rows: tuple[Row, ...]


class Rumour(msgspec.Struct, frozen=True):
    """Only as paper 001 has it: what I still tell. Answered with `Known`, and one's own rumours."""

    entries: tuple[Carried, ...]
    is_answer: bool = False


class Known(msgspec.Struct, frozen=True):
    """To `Rumour`: these I knew already, or later ones. After so many the sender stops."""

    rows: tuple[Row, ...]


ToMembership = Probe | ProbeFor | ProbeAnswer | ProbeMissed
ToDirectory = Offer | Counteroffer | Wanted | Entries | Outline | Detail | Rumour | Known
PeerMessage = ToMembership | ToDirectory
