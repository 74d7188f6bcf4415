"""A network connection to a machine of a cluster, identified by its authority's fingerprint.

First the machine is asked which authority it has; where that has the fingerprint, a second
connection is made on which everything is proved by it. Nothing is told on the first.
"""

from __future__ import annotations

import hashlib
import select
import socket
import ssl
import time

from msgspec.structs import replace

from iriai.client.rpc_channel import Conversation
from iriai.client.transport import READ_BYTES, Transport
from iriai.model.problem import Problem, Refused, Unreachable, UsageProblem
from iriai.model.token_text import Token
from iriai.model.units import format_duration
from iriai.wire.joining import AskAuthority, Authenticate, AuthorityShown

CONNECT_WAIT_S = 10.0
"""A machine that does not answer in this time is off, or behind something that drops packets."""
CLOCK_OFF_S_MAX = 3600.0
"""See `identity.enrolment.registrar`: further off, and one of the clocks is simply wrong."""
_NO_CHECK_TIME = 0x20_0000
"""X509_V_FLAG_NO_CHECK_TIME of OpenSSL: the clocks are compared first, to be named."""
_MACHINE = "/machine/"
"""In the name of a machine's certificate, `iriai://CLUSTER_ID/machine/NAME`."""


class TlsTransport(Transport):
    """Frames over one blocking TLS connection."""

    def __init__(self, connection: ssl.SSLSocket, address: str) -> None:
        super().__init__(connection, address)
        self._tls = connection

    def _send_now(self, view: memoryview) -> int:
        try:
            return self._tls.send(view)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise BlockingIOError from None

    def _receive_some(self) -> bytes:
        while True:
            try:
                return self._tls.recv(READ_BYTES)
            except ssl.SSLWantReadError:
                poll = select.poll()
                poll.register(self._tls, select.POLLIN)
                poll.poll()

    def _is_readable(self, timeout_s: float) -> bool:
        return self._tls.pending() > 0 or super()._is_readable(timeout_s)


def reach(token: Token, address: str = "") -> Conversation:
    """A conversation with the machine that `token` names, or the one at `address` (`HOST:PORT`).

    Raises:
        Refused: the machine there is not of the token's cluster, or the clocks do not agree.
        Unreachable: nobody answers there.
    """
    address = address or token.address
    where = split_address(address)
    shown = _shown(where, address)
    if hashlib.sha256(shown.authority).hexdigest() != token.fingerprint:
        raise Refused(
            "foreign-authority",
            f"the machine at {address} is of another cluster than the token",
            "check the address; if it is right, the connection is intercepted: do not go on",
        )
    return reach_member(shown.authority, address)


def reach_member(authority: bytes, address: str) -> Conversation:
    """A conversation with a member of the cluster of `authority` (DER). Raises as `reach`."""
    context = _context()
    context.load_verify_locations(cadata=authority)
    context.verify_mode = ssl.CERT_REQUIRED
    context.verify_flags |= ssl.VerifyFlags(_NO_CHECK_TIME)
    connection = _connect(context, split_address(address), address)
    certificate = connection.getpeercert() or {}
    if not _is_machine(certificate.get("subjectAltName", ())):
        connection.close()
        raise Refused(
            "not-a-machine",
            f"the process that listens on {address} is not a machine of the cluster",
        )
    conversation = Conversation(TlsTransport(connection, address))
    _compare_clocks(conversation.ask(AskAuthority()))
    return conversation


def authenticated(token: Token) -> Conversation:
    """A conversation as the user whose token this is. Raises as `reach`, and what the daemon says.

    The token goes to one machine alone, which has proved that it is of the cluster.
    """
    conversation = reach(token)
    try:
        known = conversation.ask(Authenticate(token.id, token.secret))
    except Problem:
        conversation.close()
        raise
    conversation.welcome = replace(conversation.welcome, user=known.user, operator=known.operator)
    return conversation


def split_address(address: str) -> tuple[str, int]:
    """Host and port of `HOST:PORT`, an IPv6 address in brackets; raises `UsageProblem`."""
    host, _, port = address.rpartition(":")
    if not host or not (port.isascii() and port.isdigit()) or not 0 < int(port) < 1 << 16:
        raise UsageProblem(
            "bad-address", f"'{address}' is not an address", "write HOST:PORT, as in ume.lab:6174"
        )
    return host.removeprefix("[").removesuffix("]"), int(port)


def _is_machine(names: object) -> bool:
    """Whether a certificate's alternative names, as the module ssl has them, name a machine."""
    assert isinstance(names, tuple)
    return any(kind == "URI" and _MACHINE in value for kind, value in names)


def _shown(where: tuple[str, int], address: str) -> AuthorityShown:
    """Which authority the machine says it has: to be believed only by its fingerprint."""
    context = _context()
    context.verify_mode = ssl.CERT_NONE
    conversation = Conversation(TlsTransport(_connect(context, where, address), address))
    try:
        return conversation.ask(AskAuthority())
    finally:
        conversation.close()


def _compare_clocks(shown: AuthorityShown) -> None:
    off_s = time.time() - shown.wall_s
    if abs(off_s) > CLOCK_OFF_S_MAX:
        way = "ahead of" if off_s > 0 else "behind"
        raise Refused(
            "clock-wrong",
            f"this machine's clock is {format_duration(abs(off_s))} {way} that of {shown.machine}",
            "set the one that is wrong; 'date' shows it",
        )


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # a machine is its certificate, wherever it is found
    return context


def _connect(context: ssl.SSLContext, where: tuple[str, int], address: str) -> ssl.SSLSocket:
    try:
        bare = socket.create_connection(where, CONNECT_WAIT_S)
    except OSError as error:
        raise _unreachable(error, address) from None
    try:
        secure = context.wrap_socket(bare)
        secure.setblocking(False)
    except OSError as error:
        bare.close()
        raise _not_secure(error, address) from None
    return secure


def _unreachable(error: OSError, address: str) -> Unreachable:
    why = "no answer" if isinstance(error, TimeoutError) else error.strerror or str(error)
    return Unreachable(
        "unreachable",
        f"no answer from {address} ({why})",
        "check the address; the machine there must be up, and accept connections on that port",
    )


def _not_secure(error: OSError, address: str) -> Problem:
    if isinstance(error, ssl.SSLCertVerificationError):
        return Refused(
            "foreign-authority",
            f"the machine at {address} is not of this cluster ({error.verify_message})",
            "check the address; if it is right, the connection is intercepted: do not go on",
        )
    return Unreachable(
        "not-a-member",
        f"the process that listens on {address} is not a machine of a cluster ({error})",
        "check the address and the port",
    )
