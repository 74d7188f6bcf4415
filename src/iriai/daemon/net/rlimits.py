"""Budget of descriptors of this process: one for each client and each link."""

from __future__ import annotations

import resource

from iriai.config.limits import LimitsSection
from iriai.daemon.net.mesh import LINKS_MAX

OWN_MAX = 200
"""Database, logs, launcher, listeners, and connections that have not proved who they are."""


def descriptors_needed(limits: LimitsSection) -> int:
    """With as many clients and links as there may be, and what clients pass for jobs that wait."""
    return 2 * limits.connections + LINKS_MAX + OWN_MAX


def raise_descriptor_limit(limits: LimitsSection) -> None:
    """Allow what is needed, as far as the hard limit goes; the usual soft one is 1,024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = descriptors_needed(limits)
    wanted = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def descriptors_allowed(limits: LimitsSection) -> int:
    """So many may be open now."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return descriptors_needed(limits) if soft == resource.RLIM_INFINITY else soft
