"""Resource usage of an execution."""

from __future__ import annotations

import msgspec

from iriai.model.bounds import Amount, SizeBytes


class Usage(msgspec.Struct, frozen=True, array_like=True):
    """Use of one attempt, its whole process tree counted."""

    cpu_s: Amount = 0.0
    """User and system time."""
    memory_peak_bytes: SizeBytes = 0
    read_bytes: SizeBytes = 0
    """From storage, as the kernel counts block input."""
    written_bytes: SizeBytes = 0
    """Bytes written to storage, as the kernel counts block output."""
