"""What this machine shows to others of its cluster, and how it checks what they show."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Passport:
    """Made from the machine's identity; the contexts want certificates of the authority alone."""

    name: str
    """The machine's, as its certificate has it."""
    instance: str
    """Random: of this run of the daemon, which knows nothing of what was said to an earlier one."""
    server_context: ssl.SSLContext
    client_context: ssl.SSLContext
    check_peer: Callable[[bytes], str]
    """The machine that a certificate (DER) names; raises a `Problem` where it is not to be
    believed: of another authority, out of its time, ejected."""
