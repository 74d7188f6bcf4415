"""A member of the cluster, and when it was last heard."""

from __future__ import annotations

from typing import NamedTuple

from iriai.protocol.messages.members import Member


class SeenMember(NamedTuple):
    """A machine of the cluster in the state that this one assumes."""

    member: Member
    heard_s: float | None
    """Since something of it was last heard here; None: this machine itself."""
