"""What clients ask about machines, and how a back end asks for a link; part of `requests`."""

from __future__ import annotations

import msgspec


class Nodes(msgspec.Struct, frozen=True, tag="nodes"):
    """The machines that this one knows: a front end all of its back ends, a back end itself."""


class NodeRow(msgspec.Struct, frozen=True):
    """One machine that runs tasks."""

    name: str
    state: str
    """`up`, `drained`, `away` (no link) or `unavailable`."""
    reason: str
    """Why nothing can be started there; empty where it can."""
    cpus: int
    free_cpus: int
    memory_bytes: int
    free_memory_bytes: int
    gpus: int
    free_gpus: int
    load: float
    foreign_load: float
    """The part of the load that is not of our tasks."""
    speed: float
    tasks: int
    """That run or are about to."""
    link: str
    """How it is reached: `here`, `up` or `down`."""
    differs: tuple[str, ...] = ()
    """What was observed that does not go with what the machine says of itself."""
    member: str = ""
    """What its cluster takes it for: `alive`, `suspect`, `dead` or `left`; empty outside of one."""
    cluster: str = ""
    is_broker: bool = False
    heard_s: float | None = None
    """Since something was last heard of it; None: nothing was, or it is the one that answers."""


class NodeTable(msgspec.Struct, frozen=True, tag="node-table"):
    """Answer to `Nodes`, by name."""

    rows: tuple[NodeRow, ...]
    note: str = ""
    """What of it is not known now, and why; empty: this is all."""


class Drain(msgspec.Struct, frozen=True, tag="drain"):
    """Start nothing more on a machine (empty: on this one); what runs goes on. For operators."""

    node: str
    reason: str


class Resume(msgspec.Struct, frozen=True, tag="resume"):
    """Let a drained machine (empty: this one) start tasks again. For operators."""

    node: str


class Forget(msgspec.Struct, frozen=True, tag="forget"):
    """A back end is gone for good: it is listed no more. For operators of its front end."""

    node: str


class Link(msgspec.Struct, frozen=True, tag="link"):
    """Make this connection a link: a back end's request.

    Only for root, the daemon's user and the owner of the front end's state directory.
    """

    name: str
    """The machine's."""
    identity: str
    """Of its state directory: two machines of one name are told apart by it."""
    parts_version: int
    """`wire.parts.PARTS_VERSION`."""
    version: str
    """Of iriai, for people."""


class Linked(msgspec.Struct, frozen=True, tag="linked"):
    """Answer to `Link`: what follows on this connection are frames of `wire.links`."""

    name: str
    """The front end's machine."""
    spool: str
    """Where the output of tasks that somebody follows goes."""


class LinkRow(msgspec.Struct, frozen=True):
    """How a link with another machine stands."""

    machine: str
    """Its name; of a front end that never answered, empty."""
    is_up: bool
    words: str
    """Since when, or why not."""
    way: str = "host"
    """`host` (within it), `network`, or `relay` (over a network, through another machine)."""
    sent_bytes: int = 0
    """Over a network, since the daemon began."""
    received_bytes: int = 0
    offset_s: float | None = None
    """The other machine's wall clock less this one's; None where it is not known."""
    offset_error_s: float = 0.0
    """By how much that may be wrong."""


class MemberRow(msgspec.Struct, frozen=True):
    """A machine of the cluster, as this one takes it."""

    name: str
    cluster: str
    state: str
    """`alive`, or `suspect`: it did not answer lately."""
    addresses: tuple[str, ...]
    is_outward_only: bool
    """Whether it is reached through others alone."""
    incarnation: int = 0
    """Of what it says of itself: higher each time that it came up again, or was doubted."""
    cluster_name: str = ""
    """Of the site's several clusters that which it belongs to; empty where it names none."""
