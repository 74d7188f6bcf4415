"""Resource usage of an execution."""

from __future__ import annotations

import msgspec

from iriai.model.bounds import Amount, SizeBytes


class Usage(msgspec.Struct, frozen=True, array_like=True):
    """Usage of one attempt, over its whole process tree."""

    cpu_s: Amount = 0.0
    """User and system time."""
    memory_peak_bytes: SizeBytes = 0
    read_bytes: SizeBytes = 0
    """Bytes read from storage, as the kernel counts block input."""
    written_bytes: SizeBytes = 0
    """Bytes written to storage, as the kernel counts block output."""
