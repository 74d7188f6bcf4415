"""Credentials between machines of a cluster: what this one shows, and how it checks others."""

from __future__ import annotations

import secrets
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from iriai.identity.certificates.machine_identity import MachineIdentity
    from iriai.identity.trust.trust import Trust


@dataclass(frozen=True, slots=True)
class Credentials:
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

    @classmethod
    def of(cls, identity: MachineIdentity, trust: Trust, instance: str = "") -> Credentials:
        """What a machine shows; as an instance of its own, where none is given."""
        from iriai.identity.trust.tls import client_context, server_context

        return cls(
            identity.name,
            instance or secrets.token_hex(16),
            server_context(identity, trust),
            client_context(identity, trust),
            trust.check_peer,
        )
