"""A network connection to a machine of a cluster, identified by its authority's fingerprint.

A first, unauthenticated connection fetches the certificate of the machine's authority. If it has
the expected fingerprint, a second connection is authenticated by it. The first carries no secret.
"""

from __future__ import annotations

import hashlib
import select
import socket
import ssl
import time

from msgspec.structs import replace

from iriai import __version__
from iriai.client.rpc_channel import READ_BYTES, RpcChannel, Transport
from iriai.model.address import socket_path
from iriai.model.problem import Problem, Refused, Unreachable, UsageProblem
from iriai.model.token_text import Token
from iriai.model.units import format_duration
from iriai.wire.joining import AskAuthority, Authenticate, AuthorityShown, Join, Joined

CONNECT_WAIT_S = 10.0
"""Time after which a machine is considered off, or behind a firewall that drops packets."""
TRY_WAIT_S = 3.0
"""The same for one of several addresses of a machine."""
CLOCK_OFF_S_MAX = 3600.0
"""Largest difference of two clocks that is not an error; see `identity.enrolment.registrar`."""
_NO_CHECK_TIME = 0x20_0000
"""X509_V_FLAG_NO_CHECK_TIME of OpenSSL: clocks are compared later, with a better message."""
_MACHINE = "/machine/"
"""Part of the name in a machine's certificate, `iriai://CLUSTER_ID/machine/NAME`."""


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


def reach(token: Token, address: str = "") -> tuple[RpcChannel, str]:
    """Connect to the machine that `token` names, or to the one at `address` (`HOST:PORT`).

    Returns the connection, and the address that led there: those in the token are tried in turn.

    Raises:
        Refused: the machine is not in the token's cluster, or the clocks differ too much.
        Unreachable: no machine answers at any address; all are named, with what is wrong at each.
    """
    tried = (address,) if address else token.addresses
    wait_s = CONNECT_WAIT_S if len(tried) == 1 else TRY_WAIT_S
    problems: list[Problem] = []
    for each in tried:
        try:
            return _reach_at(token, each, wait_s), each
        except (Refused, Unreachable) as problem:
            problems.append(problem)
    if len(problems) == 1:
        raise problems[0]
    family = next((Refused for each in problems if isinstance(each, Refused)), Unreachable)
    raise family(
        problems[0].code,
        "; ".join(each.message for each in problems),
        "give an address that leads to that machine: iriai join HOST:PORT",
    )


def _reach_at(token: Token, address: str, wait_s: float) -> RpcChannel:
    shown = _fetch_authority(address, wait_s)
    if hashlib.sha256(shown.authority).hexdigest() != token.fingerprint:
        raise Refused(
            "foreign-authority",
            f"the machine at {address} is of another cluster than the token",
            "check the address; if it is right, the connection is intercepted: do not go on",
        )
    return reach_member(shown.authority, address, wait_s)


def reach_member(authority: bytes, address: str, wait_s: float = CONNECT_WAIT_S) -> RpcChannel:
    """Connect to a member of the cluster of `authority` (DER); raise the same as `reach`."""
    context = _context()
    context.load_verify_locations(cadata=authority)
    context.verify_mode = ssl.CERT_REQUIRED
    context.verify_flags |= ssl.VerifyFlags(_NO_CHECK_TIME)
    connection = _connect(context, address, wait_s)
    certificate = connection.getpeercert() or {}
    if not _is_machine(certificate.get("subjectAltName", ())):
        connection.close()
        raise Refused(
            "not-a-machine",
            f"the process that listens on {address} is not a machine of the cluster",
        )
    channel = RpcChannel(TlsTransport(connection, address))
    _compare_clocks(channel.ask(AskAuthority()))
    return channel


def authenticated(token: Token) -> RpcChannel:
    """Connect as the user of `token`; raise the same as `reach`, or the daemon's refusal.

    The token is sent only to a machine that has proved that it is in the cluster.
    """
    channel, _ = reach(token)
    try:
        known = channel.ask(Authenticate(token.id, token.secret))
    except Problem:
        channel.close()
        raise
    channel.welcome = replace(channel.welcome, user=known.user, operator=known.operator)
    return channel


def ask_to_join(token: Token, address: str, name: str, request: bytes) -> Joined:
    """Ask the member at `address` (empty: the token's) to let the machine `name` join.

    `request` is the request for a certificate of its key. Raises the same as
    `reach`, and `Refused` with the member's reason.
    """
    channel, address = reach(token, address)
    try:
        body = Join(token.id, token.secret, name, request, time.time(), __version__, address)
        return channel.ask(body)
    finally:
        channel.close()


def split_address(address: str) -> tuple[str, int]:
    """Return host and port of `HOST:PORT`, an IPv6 address in brackets; raise `UsageProblem`."""
    host, _, port = address.rpartition(":")
    if not host or not (port.isascii() and port.isdigit()) or not 0 < int(port) < 1 << 16:
        raise UsageProblem(
            "bad-address", f"'{address}' is not an address", "write HOST:PORT, as in ume.lab:6174"
        )
    return host.removeprefix("[").removesuffix("]"), int(port)


def _is_machine(names: object) -> bool:
    """Return whether the alternative names of a certificate (as ssl lists them) name a machine."""
    if not isinstance(names, tuple):
        return False
    return any(kind == "URI" and _MACHINE in value for kind, value in names)


def _fetch_authority(address: str, wait_s: float) -> AuthorityShown:
    """Fetch the certificate of the machine's authority; the caller must check its fingerprint."""
    context = _context()
    context.verify_mode = ssl.CERT_NONE
    channel = RpcChannel(TlsTransport(_connect(context, address, wait_s), address))
    try:
        return channel.ask(AskAuthority())
    finally:
        channel.close()


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
    context.check_hostname = False  # the certificate identifies the machine, not its host name
    return context


def _connect(context: ssl.SSLContext, address: str, wait_s: float) -> ssl.SSLSocket:
    try:
        bare = _connected(address, wait_s)
    except OSError as error:
        raise _unreachable(error, address) from None
    try:
        secure = context.wrap_socket(bare)
        secure.setblocking(False)
    except OSError as error:
        bare.close()
        raise _not_secure(error, address) from None
    return secure


def _connected(address: str, wait_s: float) -> socket.socket:
    if not (path := socket_path(address)):
        return socket.create_connection(split_address(address), wait_s)
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(wait_s)
        connection.connect(path)
    except BaseException:
        connection.close()
        raise
    return connection


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
