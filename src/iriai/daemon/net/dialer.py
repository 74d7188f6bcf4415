"""Dials a machine at an address."""

from __future__ import annotations

import asyncio
import os
import socket

from iriai.daemon.net.credentials import Credentials
from iriai.daemon.net.handshake import Handshake, greet
from iriai.daemon.transport.socket_stream import SocketStream, ignore
from iriai.links.attempt import UNREACHED, NotReached
from iriai.links.greeting import ClientGreeting
from iriai.model.address import Address, parse_address, socket_path
from iriai.model.problem import UsageProblem

CONNECT_S = 3.0
"""For one address: a machine that is off does not answer at all, and there may be another one."""
RESOLVED_MAX = 4
"""IP addresses that are tried of one name."""


async def dial_address(
    address: str, credentials: Credentials, greeting: ClientGreeting
) -> Handshake:
    """Connect to `address` and agree on a link.

    Raises:
        NotReached: no machine answers, or another than expected, or it refuses the link.
    """
    try:
        if path := socket_path(address):
            connection = await _connect_within(path)
        else:
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
    pipe = SocketStream(connection, ignore, ignore)
    return await greet(pipe, credentials, greeting)


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
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return connection
    raise last


async def _connect_within(path: str) -> socket.socket:
    """Connect to a socket of this host; raises OSError."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    connection.setblocking(False)
    try:
        async with asyncio.timeout(CONNECT_S):
            await asyncio.get_running_loop().sock_connect(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection
