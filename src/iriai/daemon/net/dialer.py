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
"""For one address: a machine that is off answers nothing at all, and there may be another one."""
RELAYS_TRIED = 8
"""Members that are asked for an outward-only machine; its own two are among the first of them as
long as views of who is a member differ by less."""


class NotReached(Exception):
    """A machine was not reached, with the code of `handshake`."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


UNREACHED = "unreached"
"""Code of `NotReached`: nobody answers."""


async def dial_address(
    address: str, expected: str, passport: Credentials, wanted: Callable[[str], bool]
) -> Established:
    """A link with whoever listens at `address`.

    Raises:
        NotReached: nobody does, or it is not `expected`, or does not want the link.
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
    return await greet(pipe, expected, passport, wanted, is_direct=True)


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
    passport: Credentials,
    wanted: Callable[[str], bool],
    *,
    is_direct: bool,
) -> Established:
    """Agree on a link over a fresh pipe; raises NotReached."""
    over: asyncio.Future[Established] = asyncio.get_running_loop().create_future()

    def failed(code: str, message: str) -> None:
        if not over.done():
            over.set_exception(NotReached(code, message))

    def done(greeted: Established) -> None:
        if over.done():  # whoever waited has gone
            greeted.stream.close("the connection is no longer wanted")
        else:
            over.set_result(greeted)

    dialled = ClientHandshake(
        pipe,
        passport,
        expected,
        is_direct=is_direct,
        wanted=wanted,
        on_done=done,
        on_failed=failed,
    )
    try:
        return await over
    except asyncio.CancelledError:
        dialled.close("the connection is no longer wanted")
        raise


async def first_reached(ways: list[Callable[[], Awaitable[Established]]]) -> Established:
    """Try one after the other; raises the last NotReached, or the first that is more than silence.

    A machine that answers and says no says it at every address.
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
