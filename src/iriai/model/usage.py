"""What an execution used."""

from __future__ import annotations

import msgspec


class Usage(msgspec.Struct, frozen=True, array_like=True):
    """Use of one attempt, its whole process tree counted."""

    cpu_s: float = 0.0
    """User and system time."""
    memory_peak_bytes: int = 0
    read_bytes: int = 0
    """From storage, as the kernel counts block input."""
    written_bytes: int = 0
    """To storage, as the kernel counts block output."""
