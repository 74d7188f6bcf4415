"""The limit of open descriptors of this process: one for each client and each link."""

from __future__ import annotations

import resource

from iriai.config.limits import LimitsSection
from iriai.links.limits import LINKS_MAX

OWN_MAX = 200
"""Database, logs, launcher, listeners, and unauthenticated connections."""


def descriptors_needed(limits: LimitsSection) -> int:
    """Return how many descriptors are open with all clients, links and passed descriptors."""
    return 2 * limits.connections + LINKS_MAX + OWN_MAX


def raise_descriptor_limit(limits: LimitsSection) -> None:
    """Raise the soft limit, usually 1,024, to what is needed, or to the hard limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = descriptors_needed(limits)
    wanted = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def descriptors_allowed(limits: LimitsSection) -> int:
    """Return how many descriptors the soft limit allows."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return descriptors_needed(limits) if soft == resource.RLIM_INFINITY else soft
