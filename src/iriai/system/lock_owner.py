"""Who holds a lock, as its file says: believed of a process that runs since then, on this boot."""

from __future__ import annotations

import os
from contextlib import suppress

from iriai.system.procfs import boot_id, read_process

LOCK_MODE = 0o600
"""Whoever can open a file can lock it, so nobody but its owner may."""
TEXT_BYTES = 80
"""A process id, a start time and a boot id, with blanks: always as many, so that it can be
overwritten in place."""


def owner_text() -> bytes:
    """What this process writes into a lock that it took."""
    process = read_process(os.getpid())
    ticks = process.started_ticks if process else 0
    return f"{os.getpid()} {ticks} {boot_id()}".ljust(TEXT_BYTES - 1).encode() + b"\n"


def owner_in(descriptor: int) -> int | None:
    """The process that wrote into the lock, where it still runs; None where nobody did, or is gone.

    A process id alone says nothing: it may be another's by now.
    """
    words = os.pread(descriptor, TEXT_BYTES, 0).split()
    if len(words) != 3 or not (words[0].isdigit() and words[1].isdigit()):
        return None
    pid, ticks = int(words[0]), int(words[1])
    if words[2].decode(errors="replace") != boot_id():
        return None
    with suppress(OSError, ValueError):
        process = read_process(pid)
        if process is not None and process.started_ticks == ticks and process.is_live:
            return pid
    return None
