"""How many descriptors this process may have open: one for each client and each link."""

from __future__ import annotations

import resource

from iriai.daemon.clients import CLIENTS_MAX
from iriai.daemon.mesh import LINKS_MAX

OWN_MAX = 200
"""Database, logs, launcher, listeners, and connections that have not proved who they are."""
NEEDED = CLIENTS_MAX + LINKS_MAX + OWN_MAX


def raise_descriptor_limit() -> None:
    """Allow what is needed, as far as the hard limit goes; the usual soft one is 1,024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = NEEDED if hard == resource.RLIM_INFINITY else min(NEEDED, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def descriptors_allowed() -> int:
    """So many may be open now."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return NEEDED if soft == resource.RLIM_INFINITY else soft
