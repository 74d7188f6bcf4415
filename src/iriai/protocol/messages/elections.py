"""Messages about who is the broker, and what it has taken in (docs/spec/008)."""

from __future__ import annotations

from typing import Annotated

import msgspec

from iriai.model.bounds import Count, Many, Name, Real


class AskBroker(msgspec.Struct, frozen=True):
    """Any machine to a candidate: which machine is the broker? Answered with `BrokerIs`."""


class BrokerIs(msgspec.Struct, frozen=True):
    """Whom the sender takes for the broker of their cluster; also told by a new broker to all.

    Only a machine's word that it is the broker itself has anybody follow it.
    """

    broker: Name
    term: Real = 0.0
    """Where it is the sender: changes whenever it restarts, and knows nothing."""


class Heard(msgspec.Struct, frozen=True):
    """Broker to machine, at the end of a turn in which it was told something by it."""

    term: Real
    idle: tuple[Count, Count] | None = None
    """Incarnation and version of the last report of its node that was taken in."""
    wants: Annotated[tuple[tuple[Count, Count], ...], Many] = ()
    """Number and stamp of the wants, and withdrawals, of its home that were taken in."""
    is_lacking: bool = False
    """Whether a report before that never came: the node is to report whole."""


ToSuccession = AskBroker | BrokerIs | Heard
"""To the election of each machine; see `protocol.election`."""
