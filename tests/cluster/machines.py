"""Machines as members of a cluster, as the tests beside this file make them."""

from __future__ import annotations

from random import Random

from iriai.cluster.member import ClusterMember
from iriai.model.instant import Instant
from iriai.policy.accounting.decay import Decay
from iriai.protocol.messages.members import Member, MemberState
from iriai.sim.world.keyed_signatures import KeyedSigner, KeyedVerifier

NOW = Instant(100.0, 1_800_000_000.0)
DECAY = Decay(604_800.0)


def member(name: str, cluster: str = "", *, incarnation: int = 1, **more) -> ClusterMember:
    """A machine of the site `lab` that has not begun; `more` is said of it to others."""
    own = Member(name, 1, MemberState.ALIVE, "lab", (f"{name}:1",), cluster_name=cluster, **more)
    return ClusterMember(
        own,
        NOW,
        incarnation=incarnation,
        signer=KeyedSigner(1, name),
        verifier=KeyedVerifier(1),
        rng=Random(1),
        decay=DECAY,
    )
