"""What the machines of a pool give away, each of them (docs/spec/014, section 2)."""

from __future__ import annotations

from typing import NamedTuple

from iriai.model.bounds import Count, Name, SizeBytes


class PoolRoom(NamedTuple):
    """A pool with the machines that could run a job."""

    name: Name
    cpus: Count
    """The most that one of them has."""
    memory_bytes: SizeBytes
    """The least that one of them has; 0: that is not known."""
    disk_bytes: SizeBytes
    """The same of disk."""


class MachineLimits(NamedTuple):
    """What a job may take on each of its machines, as it was admitted; 0: there is no limit."""

    memory_bytes: SizeBytes = 0
    disk_bytes: SizeBytes = 0


NO_LIMITS = MachineLimits()
