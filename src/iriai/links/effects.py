"""What the links of a machine order their driver to do."""

from __future__ import annotations

from typing import NamedTuple

from iriai.links.circuits import CircuitOutput
from iriai.links.session import LinkSession
from iriai.protocol.messages.effects import LinkDown, LinkUp, Send
from iriai.wire.links import LinkFrame


class Dial(NamedTuple):
    """Connect to `address`, or open a circuit through `relay`, and agree with `machine` on a link.

    The attempt goes on with the result: `LinkCore.linked`, or `LinkCore.missed`.
    """

    machine: str
    address: str
    relay: str = ""
    """Empty: there is an address."""


class Seek(NamedTuple):
    """Find out where `machine` of another cluster is; membership does not know, or it moved."""

    machine: str


class AbortDial(NamedTuple):
    """End the running attempt to reach `machine`; its result is not awaited any more."""

    machine: str


class Transmit(NamedTuple):
    """Send messages over a link, in order."""

    link: LinkSession
    sends: list[Send]


class TransmitFrame(NamedTuple):
    """Send one frame over a link."""

    link: LinkSession
    content: LinkFrame


class CloseLink(NamedTuple):
    """Close the connection of a link."""

    link: LinkSession
    reason: str
    reads_out: bool = False
    """Whether to handle everything that has arrived before."""
    is_told: bool = False
    """Whether the other machine gets the reason: it is to blame."""


class TextsLost(NamedTuple):
    """A machine's next link begins without the texts that came before."""

    machine: str


class PollIn(NamedTuple):
    """Call `LinkCore.poll` after a while; earlier orders stay."""

    delay_s: float


class Report(NamedTuple):
    """A line for the log."""

    words: str
    is_warning: bool = True


OnLink = Transmit | TransmitFrame | CloseLink
LinkEffect = (
    OnLink
    | Dial
    | Seek
    | AbortDial
    | TextsLost
    | PollIn
    | Report
    | CircuitOutput
    | LinkUp
    | LinkDown
)
