"""Members of a cluster: their own statements, and their states (spec 006)."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import msgspec

from iriai.model.bounds import Count, Many, Name, Weight, Word


class MemberState(StrEnum):
    """What a machine takes another for. Of these only the owner itself says `alive` and `left`."""

    ALIVE = "alive"
    SUSPECT = "suspect"
    """It did not answer; it has some seconds to say that it is there."""
    DEAD = "dead"
    """It did not say so. No job is ever ended for that: leases decide (spec 002, section 3)."""
    LEFT = "left"
    """It said that it goes."""


class Member(msgspec.Struct, frozen=True):
    """One machine; all but the state is what it said of itself, signed."""

    name: Name
    incarnation: Count
    """Raised by the machine alone; what others suspect of an earlier one is void."""
    state: MemberState
    cluster: Name
    addresses: Annotated[tuple[Name, ...], Many] = ()
    """Where it listens, `host:port` each, the best first; none of an outward-only one."""
    is_outward_only: bool = False
    """Whether it can only connect outwards; it is then reached through others, never broker."""
    parts: Annotated[tuple[Name, ...], Many] = ("node", "home", "broker")
    """Of it; see `effects.Part`."""
    steadiness: Weight = 0.5
    """How much of the time it is on and reachable, 0 to 1: the weight it has as a broker."""
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
        """Whether it takes part, by what is known: alive, or only suspected not to be."""
        return self.state in {MemberState.ALIVE, MemberState.SUSPECT}
