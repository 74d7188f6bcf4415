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
RELAYS_TRIED = 8
"""Members tried as relays to an outward-only machine; the two that it uses are among the first
unless views of the membership differ by more."""


class NotReached(Exception):
    """A machine was not reached; `code` is one of `handshake`, or `UNREACHED`."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


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
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
        raise NotReached(UNREACHED, f"no answer from {address} ({reason})") from None
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    pipe = SocketStream(connection, ignore, ignore)
    return await greet(pipe, expected, credentials, wanted, is_direct=True)


async def _connect(address: Address) -> socket.socket:
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(CONNECT_S):
        found = await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
        family, kind, protocol, _, place = found[0]
        connection = socket.socket(family, kind | socket.SOCK_CLOEXEC, protocol)
        connection.setblocking(False)
        try:
            await loop.sock_connect(connection, place)
        except BaseException:
            connection.close()
            raise
    return connection


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

    def failed(_machine: str, code: str, message: str) -> None:
        if not result.done():
            result.set_exception(NotReached(code, message))

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
        NotReached: the first that is a refusal, since a machine refuses at each of its addresses;
            otherwise the last.
    """
    last = NotReached(UNREACHED, "no address of it is known")
    for way in ways:
        try:
            return await way()
        except NotReached as missed:
            last = missed
            if missed.code != UNREACHED:
                break
    raise last
