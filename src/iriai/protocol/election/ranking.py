"""The members of a cluster as one report of them has it: who is there, and who could be its broker.

A report names hundreds, and is kept by each machine that heard it. Machines of one simulated world
hear the same: they share what follows from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from iriai.protocol.messages.candidates import BrokerCandidate, ranked

KEPT = 8
"""Reports: those that a world is telling now. One follows the other; nobody looks back."""


class Ranking(NamedTuple):
    """What follows from a report. Nobody changes it."""

    peers: Mapping[str, BrokerCandidate] = {}
    """By name."""
    names: tuple[str, ...] = ()
    """The rank, were nobody suspected."""
    places: Mapping[str, int] = {}
    """In `names`."""


@lru_cache(maxsize=KEPT)
def ranking(cluster: str, peers: tuple[BrokerCandidate, ...]) -> Ranking:
    """Of these members."""
    names = ranked(cluster, (peer._replace(is_suspect=False) for peer in peers))
    places = {name: place for place, name in enumerate(names)}
    return Ranking({peer.name: peer for peer in peers}, names, places)
