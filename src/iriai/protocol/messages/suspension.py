"""Messages about suspended seats (docs/spec/012, section 3)."""

from __future__ import annotations

import msgspec

from iriai.model.bounds import Count, Name, QueueIndex, Words
from iriai.model.ids import AttemptId
from iriai.model.suspension import Reasons


class Suspend(msgspec.Struct, frozen=True):
    """Home to node: the user of a seat wants it suspended, or no longer (docs/spec/012).

    Repeated when the machine can be reached again; answered with `Suspended`.
    """

    attempt: AttemptId
    change: Count
    """Rises with each change of this attempt; one that is not higher than the last is ignored."""
    is_wanted: bool


class Suspended(msgspec.Struct, frozen=True, omit_defaults=True):
    """Node to home: the reasons for which a seat does not run at present; empty: it runs.

    Sent when they change, and in answer to `Suspend`.
    """

    attempt: AttemptId
    machine: Name
    change: Count
    """The last change of its home that the node has taken in."""
    reasons: Reasons = ()
    is_resuming: bool = False
    """Whether it waits for its cpus, which others have."""
    moved_to: QueueIndex | None = None
    """The lower queue in which it goes on, after its time of residence; None: it did not move."""
    seen: Words = ""
    """With the reason `owner`: what was seen of the owner, for people."""


class ReturnCpus(msgspec.Struct, frozen=True):
    """Broker to node: a seat that waits for its cpus may take so many: nobody was promised them.

    The node takes those of them that are free, and lets the seat go on once it has all.
    """

    attempt: AttemptId
    cpus: Count


class Vacate(msgspec.Struct, frozen=True):
    """Broker to node: what a suspended seat keeps was promised to another task from its end on.

    The node ends it as `evicted` if that end is near and its user alone keeps it suspended.
    """

    attempt: AttemptId
