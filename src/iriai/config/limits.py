"""The section `[limits]` of `iriai.toml`; see `sections`."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from iriai.config.values import Bytes, Seconds

Connections = Annotated[int, Meta(ge=1, le=1_000_000)]
"""Bounded by the descriptors that a kernel lets one process open."""
Requests = Annotated[int, Meta(ge=1, le=1_000_000_000)]
"""The upper bound is as good as no limit."""
PerSecond = Annotated[float, Meta(ge=1, le=1e9)]


class LimitsSection(msgspec.Struct, frozen=True):
    """`[limits]`: how much of the daemon one user may use (docs/spec/010, section 4).

    The limits per user do not apply to operators. Larger: one user can do more at once, and makes
    others wait longer.
    """

    connections: Connections = 1000
    """Connections of all clients at once. Each takes two descriptors at most, which `doctor`
    compares with the limit of the process."""
    connections_reserved: Annotated[int, Meta(ge=0, le=1_000_000)] = 100
    """Connections, among these, that are reserved for operators."""
    connections_per_user: Connections = 250
    """Connections of one user at once: each command that waits has one."""
    hello_s: Seconds = 10.0
    """The time after which a silent new connection is closed."""
    unfinished_bytes_per_user: Bytes = 48 << 20
    """Bytes of requests that are not complete: the largest one, with a script and a standard input
    of 16 MiB each, fits."""
    unsent_bytes_per_user: Bytes = 64 << 20
    """Bytes of answers that the client has not read: a listing of some hundred thousand jobs
    fits."""
    connects_per_s: PerSecond = 500.0
    """New connections of one user, in the long run; who comes faster waits, and is not refused."""
    connects_burst: Connections = 1000
    """The number of connections that may come at once."""
    requests_per_s: PerSecond = 5000.0
    """Requests of one user in the long run; more are read more slowly, not refused. This is more
    than the daemon can do: within that, users are served in turns. A request counts once more for
    each 4 KiB of it."""
    requests_burst: Requests = 20_000
    """The number of requests that may come at once."""
    descriptors_per_user: Annotated[int, Meta(ge=0, le=1_000_000)] = 250
    """Terminals and inputs of jobs that wait."""
    waits_per_user: Requests = 1_500_000
    """Jobs and tasks that one user waits for: the largest range, and half as many beside."""
    jobs_per_user: Requests = 10_000
    """Unfinished jobs of a user: each takes some 2 kB. An array is one job."""
    job_bytes_per_user: Bytes = 1 << 30
    """Bytes of these jobs: commands, environments, scripts, inputs."""
    jobs_per_account: Requests | None = None
    """The same of each account (group and user, as shares count it): who has several, or names
    those of others, has so many in each. None: no such limit."""
    job_bytes_per_account: Bytes | None = None
    """The same of what came with them."""
