"""Credentials between machines of a cluster: this machine's certificate, and checks of others'."""

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
    """TLS contexts that accept only certificates of the authority, and the check of a peer."""

    name: str
    """The machine's name in its certificate."""
    instance: str
    """Random, of this run of the daemon, which knows no messages to an earlier one."""
    server_context: ssl.SSLContext
    client_context: ssl.SSLContext
    check_peer: Callable[[bytes], str]
    """Returns the machine that a certificate (DER) names; raises a `Problem` if it is not valid: of
    another authority, expired, ejected."""

    @classmethod
    def of(cls, identity: MachineIdentity, trust: Trust, instance: str = "") -> Credentials:
        """Return the credentials of a machine, by default as a new instance."""
        from iriai.identity.trust.tls import client_context, server_context

        return cls(
            identity.name,
            instance or secrets.token_hex(16),
            server_context(identity, trust),
            client_context(identity, trust),
            trust.check_peer,
        )
