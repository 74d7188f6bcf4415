"""The site view: members by cluster, and the candidates for each broker.

All is kept up with the members that change: of thousands, one that changes has its own cluster
ranked, and one that only says again what it is costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from iriai.protocol.messages.candidates import BrokerCandidate, ClusterPeer, peer_clusters_of
from iriai.protocol.messages.effects import PeersChanged
from iriai.protocol.messages.members import Member


class SiteView:
    """Members of the site by cluster, and the candidates for each broker."""

    def __init__(self, own: Member) -> None:
        """`own` is the member that this machine is."""
        self._site = own.cluster
        self._cluster = own.cluster_called
        self._cluster_of: dict[str, str] = {}
        self._peers: dict[str, dict[str, BrokerCandidate]] = {}
        """By cluster."""
        self._peer_clusters: dict[str, ClusterPeer] = {}
        self._changed: dict[str, None] = {}
        """Clusters that must be ranked again."""
        self.has_news = False
        """Whether anything has changed since the last report."""
        self.update((own,))

    def update(self, members: Iterable[Member]) -> None:
        """Replace the given members by their current states."""
        for member in members:
            is_there = member.is_present and member.cluster == self._site
            cluster = member.cluster_called if is_there else ""
            before = self._cluster_of.pop(member.name, "")
            if before and before != cluster:
                del self._peers[before][member.name]
                self._note(before)
            if is_there:
                self._cluster_of[member.name] = cluster
                peers = self._peers.setdefault(cluster, {})
                peer = BrokerCandidate.of(member)
                if peers.get(member.name) != peer:
                    peers[member.name] = peer
                    self._note(cluster)

    def candidates(self) -> tuple[str, ...]:
        """Return the candidates for the broker of the own cluster, best first."""
        self._rank()
        own = self._peer_clusters.get(self._cluster)
        return own.candidates if own is not None else ()

    def report(self) -> PeersChanged:
        """Return the event that brings the machine up to date."""
        self.has_news = False
        self._rank()
        neighbours = tuple(self._peer_clusters[name] for name in sorted(self._peer_clusters))
        return PeersChanged(tuple(self._peers[self._cluster].values()), neighbours)

    def _note(self, cluster: str) -> None:
        self._changed[cluster] = None
        self.has_news = True

    def _rank(self) -> None:
        """Rank the clusters again whose members changed."""
        for cluster in self._changed:
            peers = self._peers[cluster]
            if peers:
                [self._peer_clusters[cluster]] = peer_clusters_of({cluster: peers.values()})
            else:
                del self._peers[cluster]
                self._peer_clusters.pop(cluster, None)
        self._changed.clear()
