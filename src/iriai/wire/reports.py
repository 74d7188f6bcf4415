"""What a daemon tells of itself and its machine; part of `requests`."""

from __future__ import annotations

import msgspec

from iriai.wire.machines import LinkRow, MemberRow


class Status(msgspec.Struct, frozen=True, tag="status"):
    """How the machine is."""


class ClusterSight(msgspec.Struct, frozen=True):
    """A cluster as one of its machines sees it."""

    name: str
    members: dict[str, int]
    """How many there are by what they are taken for: alive (as itself), suspect, dead, left."""
    brokers: tuple[str, ...]
    """Whom it takes for the broker of its own cluster."""
    news_half_s: float | None
    """How old half of what others published was, at most, when it came here; None: nothing came."""
    news_late_s: float | None
    """The same of 95 %: so long it takes until all know."""
    news_rounds: float | None
    """The latter in rounds of the gossip."""
    sent_bytes_per_s: float
    """To all machines, over about a minute; likewise received."""
    received_bytes_per_s: float
    begun: int
    """Attempts of jobs of this home that began, on all machines, since the daemon did."""
    claims_refused: dict[str, int]
    """Claims of this home that a machine refused since then, by the rule that said no."""
    offset_worst_s: float | None
    """Of the machine whose clock is farthest from this one's; None: none is known."""
    offset_machine: str
    steadiness: float
    """The part of the time that this machine is there, as it tells others."""


class StatusReport(msgspec.Struct, frozen=True, tag="status-report"):
    """Answer to `Status`."""

    home: str
    version: str
    state_directory: str
    socket: str
    daemon_pid: int
    launcher_pid: int | None
    supervisor_pid: int | None
    mode: str
    """`system` (root, every user) or `single-user`."""
    order: str
    up_s: float
    capacity: dict[str, int]
    free: dict[str, int]
    speed: float
    jobs: int
    waiting: int
    active: int
    load: float
    trouble: tuple[str, ...]
    """What keeps the machine from working as it should; empty: nothing."""
    parts: tuple[str, ...] = ("node", "home", "broker")
    links: tuple[LinkRow, ...] = ()
    """With other machines: of a front end those that were ever linked, of a back end the one; of a
    member of a cluster those that there was anything to say to."""
    members: tuple[MemberRow, ...] = ()
    """The other machines of the cluster."""
    broker: str = ""
    """The machine that is the broker, as this one sees it."""
    cluster_name: str = ""
    """Of the site's several clusters that which the machine belongs to; empty: it names none."""
    cluster: ClusterSight | None = None
    """None: it is in none."""


class Doctor(msgspec.Struct, frozen=True, tag="doctor"):
    """How each limit is kept, and what is missing."""


class Finding(msgspec.Struct, frozen=True):
    """One line of `doctor`: `level` ok, note or trouble."""

    subject: str
    level: str
    message: str
    hint: str = ""


class DoctorReport(msgspec.Struct, frozen=True, tag="doctor-report"):
    """Answer to `Doctor`."""

    findings: tuple[Finding, ...]


class ShowConfiguration(msgspec.Struct, frozen=True, tag="show-configuration"):
    """The values in force, and where each comes from."""


class Setting(msgspec.Struct, frozen=True):
    """One value; `source` is `default`, `measured`, or the file."""

    key: str
    value: str
    source: str


class ConfigurationTable(msgspec.Struct, frozen=True, tag="configuration-table"):
    """Answer to `ShowConfiguration`."""

    settings: tuple[Setting, ...]
