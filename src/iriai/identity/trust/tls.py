"""TLS between machines of one cluster: version 1.3, both certificates checked, no host names.

OpenSSL follows the chain to the authority and proves that the peer has the key. The dates and the
rest are for `Trust.check_peer`, which whoever accepts or opens a connection calls before anything
is believed: it can name what is wrong, a clock that is a year off say, in words for people.
"""

from __future__ import annotations

import ssl

from iriai.identity.certificates.machine_identity import MachineIdentity
from iriai.identity.trust.trust import Trust

_NO_CHECK_TIME = 0x20_0000
"""X509_V_FLAG_NO_CHECK_TIME of OpenSSL, which the module ssl has no name for."""


def server_context(identity: MachineIdentity, trust: Trust) -> ssl.SSLContext:
    """For connections that others open, with or without a certificate.

    A newcomer has none yet: where the peer shows none (`getpeercert(True)` is None) it may ask to
    join, or show a token, and nothing else.
    """
    context = _context(ssl.PROTOCOL_TLS_SERVER, identity, trust)
    context.verify_mode = ssl.CERT_OPTIONAL
    return context


def client_context(identity: MachineIdentity, trust: Trust) -> ssl.SSLContext:
    """Return the context of connections to other machines of the cluster."""
    context = _context(ssl.PROTOCOL_TLS_CLIENT, identity, trust)
    context.check_hostname = False  # a machine is its certificate, wherever it is found
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def _context(protocol: int, identity: MachineIdentity, trust: Trust) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_cert_chain(identity.certificate_path, identity.key_path)
    context.load_verify_locations(cadata=trust.authority.der)
    context.verify_flags |= ssl.VerifyFlags(_NO_CHECK_TIME)
    # A ticket would let a peer come back without its certificate being looked at again.
    context.options |= ssl.OP_NO_TICKET
    if protocol == ssl.PROTOCOL_TLS_SERVER:
        context.num_tickets = 0
    return context
