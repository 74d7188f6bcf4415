"""Candidates for a cluster's broker, best first: weighted rendezvous hashing.

Each machine ranks the members that it knows by itself, and all come to the same rank: a machine's
place depends on its own name and weight alone, so that one that comes or goes moves nobody else.
The rule is Wang and Ravishankar's highest random weight (A name-based mapping scheme for
rendezvous, 1996) with the logarithmic weights of Schindelhauer and Schomaker (Weighted distributed
hash tables, SPAA 2005). docs/spec/008.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from hashlib import blake2b
from math import log
from typing import NamedTuple

from iriai.protocol.messages.members import Member, MemberState

CANDIDATES_MAX = 3
"""So many of the rank watch each other: two may die within seconds, and the work goes on."""
WEIGHTS = ((0.95, 16.0), (0.5, 4.0), (0.0, 1.0))
"""Least steadiness, and the weight with it. In steps: a rank that moved with every hour of being up
would move the broker with it."""
PLACES_MAX = 4096
"""Hashes that are kept, since members are ranked whenever one of them changes: eight clusters."""
_BITS = 64


class BrokerCandidate(NamedTuple):
    """The properties of a cluster member that decide who is the broker."""

    name: str
    steadiness: float = 1.0
    """The fraction of the time that it is online, from 0 to 1."""
    is_outward_only: bool = False
    """Whether it accepts no connections."""
    is_suspect: bool = False
    """Whether a member suspects it, and it has not refuted that."""
    has_node: bool = True
    has_home: bool = True
    has_broker: bool = True
    """Whether it may be the broker."""

    @staticmethod
    def of(member: Member) -> BrokerCandidate:
        """Return the candidate that `member` is."""
        return BrokerCandidate(
            member.name,
            member.steadiness,
            member.is_outward_only,
            member.state is MemberState.SUSPECT,
            "node" in member.parts,
            "home" in member.parts,
            "broker" in member.parts,
        )


class ClusterPeer(NamedTuple):
    """Another cluster of the site, with the members that may be its broker."""

    cluster: str
    candidates: tuple[str, ...]
    """The first of its rank, the best first; none where nobody of it is there.

    Where the rank is empty each machine is its own broker: then the first of them.
    """


def peer_clusters_of(
    peers_by_cluster: Mapping[str, Iterable[BrokerCandidate]],
) -> tuple[ClusterPeer, ...]:
    """Return the clusters of a site with their candidates, from the members of each."""
    return tuple(
        ClusterPeer(cluster, speakers(cluster, tuple(peers))[:CANDIDATES_MAX])
        for cluster, peers in sorted(peers_by_cluster.items())
    )


def speakers(cluster: str, peers: tuple[BrokerCandidate, ...]) -> tuple[str, ...]:
    """Who may speak for a cluster, best first.

    Where all are outward-only each is its own broker, and relays reach it.
    """
    reachable = ranked(cluster, peers)
    return reachable or ranked(cluster, (each._replace(is_outward_only=False) for each in peers))


def first_of(cluster: str, members: Iterable[Member], most: int) -> list[str]:
    """Return the first of a cluster's members by its rank, those that cannot be broker last."""
    peers = [BrokerCandidate.of(each) for each in members]
    able = speakers(cluster, tuple(peers))
    return [*able, *sorted(each.name for each in peers if each.name not in able)][:most]


def ranked(cluster: str, peers: Iterable[BrokerCandidate]) -> tuple[str, ...]:
    """The names of those that may be broker, best first.

    Outward-only machines are never among them, nor those that someone suspects.
    """
    able = [
        (_place(cluster, peer.name) / _weight(peer.steadiness), peer.name)
        for peer in peers
        if peer.has_broker and not peer.is_outward_only and not peer.is_suspect
    ]
    return tuple(name for _, name in sorted(able))


@lru_cache(maxsize=PLACES_MAX)
def _place(cluster: str, name: str) -> float:
    """Smaller comes first: of machines alike each is as likely to be the smallest."""
    digest = blake2b(f"{cluster}/{name}".encode(), digest_size=_BITS // 8).digest()
    return -log((int.from_bytes(digest, "big") + 0.5) / 2.0**_BITS)


def _weight(steadiness: float) -> float:
    return next(weight for least, weight in WEIGHTS if steadiness >= least)
