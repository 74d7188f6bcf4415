"""Members of a cluster: their own statements, and their states (spec 006)."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import msgspec

from iriai.model.bounds import Count, Document, Many, Name, Weight, Word


class MemberState(StrEnum):
    """The state that a machine assigns to another. Only the owner publishes `alive` and `left`."""

    ALIVE = "alive"
    SUSPECT = "suspect"
    """It did not answer, and has some seconds to refute the suspicion."""
    DEAD = "dead"
    """It did not refute it. No job is ended for that: leases decide (spec 002, section 3)."""
    LEFT = "left"
    """It announced that it leaves."""


class Member(msgspec.Struct, frozen=True):
    """A machine as it published itself, but for the state."""

    name: Name
    incarnation: Count
    """Raised by the machine alone; suspicions of an earlier incarnation are void."""
    state: MemberState
    cluster: Name
    addresses: Annotated[tuple[Name, ...], Many] = ()
    """Its addresses, `host:port` each, the best first; none if it is outward-only."""
    is_outward_only: bool = False
    """Whether it accepts no connections; it is then reached through relays and never broker."""
    parts: Annotated[tuple[Name, ...], Many] = ("node", "home", "broker")
    """Its parts; see `effects.Part`."""
    steadiness: Weight = 0.5
    """The fraction of the time that it is online, 0 to 1: its weight as a candidate."""
    instance: Word = ""
    """Random, of its state directory, with its boot: two machines with one name, or a copy of a
    state directory that was started elsewhere, are told apart by it."""
    certificate_digest: Word = ""
    """SHA-256 of its certificate, in hexadecimal; empty where machines have none."""
    cluster_name: Name = ""
    """The cluster that it works in, where the site has several (spec 008, section 6)."""

    @property
    def cluster_called(self) -> str:
        """The cluster whose broker is its own: those that name none are one, called as the site."""
        return self.cluster_name or self.cluster

    @property
    def is_present(self) -> bool:
        """Whether it is alive or suspect."""
        return self.state in {MemberState.ALIVE, MemberState.SUSPECT}


class Gateway(msgspec.Struct, frozen=True):
    """A machine as other clusters know it, with all that is needed to verify what it signs."""

    member: Member
    certificate: Document = b""
    """Empty where machines have none."""


class ClusterUsage(msgspec.Struct, frozen=True, array_like=True):
    """What all machines of a cluster have counted together, as one of its gateways knows it."""

    cluster: Name
    certificate: Document
    """Of the gateway: its usage is kept for longer than itself."""
    batch: Document
    """A `ledger.LedgerBatch` of the sums."""
