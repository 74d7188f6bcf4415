"""Dials a machine: its addresses one after another, or relays that may lead to it."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable

from iriai.daemon.net.credentials import Credentials
from iriai.daemon.net.handshake import ClientHandshake, Established
from iriai.daemon.transport.socket_stream import ByteStream, SocketStream, ignore
from iriai.model.address import Address, parse_address
from iriai.model.problem import UsageProblem

CONNECT_S = 3.0
"""For one address: a machine that is off does not answer at all, and there may be another one."""
RESOLVED_MAX = 4
"""IP addresses that are tried of one name."""
RELAYS_TRIED = 8
"""Members tried as relays to an outward-only machine; the two that it uses are among the first
unless views of the membership differ by more."""


class NotReached(Exception):
    """A machine was not reached; `code` is one of `handshake`, or `UNREACHED`."""

    def __init__(self, code: str, message: str, *, is_refusal: bool = False) -> None:
        """`is_refusal`: the machine itself refused, as it would at each of its addresses."""
        super().__init__(message)
        self.code = code
        self.message = message
        self.is_refusal = is_refusal


UNREACHED = "unreached"
"""Code of `NotReached`: there is no answer."""


async def dial_address(
    address: str, expected: str, credentials: Credentials, wanted: Callable[[str], bool]
) -> Established:
    """Connect to `address` and agree on a link.

    Raises:
        NotReached: no machine answers, or another than `expected`, or it refuses the link.
    """
    try:
        connection = await _connect(parse_address(address))
    except UsageProblem as problem:
        raise NotReached(problem.code, str(problem)) from None
    except TimeoutError:
        words = f"{address} does not answer within {CONNECT_S:.0f} s"
        raise NotReached(UNREACHED, words) from None
    except OSError as error:
        code = error.errno or 0
        reason = os.strerror(code) if code > 0 else error.strerror or str(error)
        raise NotReached(UNREACHED, f"no answer from {address} ({reason})") from None
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    pipe = SocketStream(connection, ignore, ignore)
    return await greet(pipe, expected, credentials, wanted, is_direct=True)


async def _connect(address: Address) -> socket.socket:
    """Connect to the first of the IP addresses of a host that answers; raises OSError."""
    loop = asyncio.get_running_loop()
    last: OSError = ConnectionError("its name has no address")
    async with asyncio.timeout(CONNECT_S):
        found = await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    for family, kind, protocol, _, place in found[:RESOLVED_MAX]:
        connection = socket.socket(family, kind | socket.SOCK_CLOEXEC, protocol)
        connection.setblocking(False)
        try:
            async with asyncio.timeout(CONNECT_S):
                await loop.sock_connect(connection, place)
        except OSError as error:  # a time-out is one
            connection.close()
            last = error
        except BaseException:
            connection.close()
            raise
        else:
            return connection
    raise last


async def greet(
    pipe: ByteStream,
    expected: str,
    credentials: Credentials,
    wanted: Callable[[str], bool],
    *,
    is_direct: bool,
) -> Established:
    """Agree on a link over a new byte stream; raises NotReached."""
    result: asyncio.Future[Established] = asyncio.get_running_loop().create_future()

    def failed(machine: str, code: str, message: str) -> None:
        if not result.done():
            result.set_exception(NotReached(code, message, is_refusal=bool(machine)))

    def done(greeted: Established) -> None:
        if result.done():  # the caller was cancelled
            greeted.stream.close("the connection is no longer wanted")
        else:
            result.set_result(greeted)

    handshake = ClientHandshake(
        pipe,
        credentials,
        expected,
        is_direct=is_direct,
        wanted=wanted,
        on_done=done,
        on_failed=failed,
    )
    try:
        return await result
    except asyncio.CancelledError:
        handshake.close("the connection is no longer wanted")
        raise


async def first_reached(ways: list[Callable[[], Awaitable[Established]]]) -> Established:
    """Return the first link that succeeds, trying one way after the other.

    Raises:
        NotReached: with the machine's refusal, or with what is wrong on each way.
    """
    found: list[NotReached] = []
    for way in ways:
        try:
            return await way()
        except NotReached as missed:
            if missed.is_refusal:
                raise
            found.append(missed)
    if not found:
        raise NotReached(UNREACHED, "no address of it is known")
    raise NotReached(found[-1].code, "; ".join(dict.fromkeys(each.message for each in found)))
