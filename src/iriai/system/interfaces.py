"""The network addresses of this host, from the kernel's routing socket (rtnetlink(7))."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import suppress

_HEADER = struct.Struct("=IHHII")
"""nlmsghdr: length, type, flags, sequence number, port id."""
_ADDRESS = struct.Struct("=BBBBI")
"""ifaddrmsg: family, length of the prefix, flags, scope, index of the interface."""
_ATTRIBUTE = struct.Struct("=HH")
"""rtattr: length, type."""
_GET_ADDRESSES = 22
_NEW_ADDRESS = 20
_REQUEST_ALL = 0x301
_IFA_ADDRESS, _IFA_LOCAL = 1, 2
_UNIVERSE = 0
"""The scope of addresses that are valid beyond this link."""
_UNUSABLE = 0x08 | 0x20 | 0x40
"""Flags: the address is a duplicate, deprecated or tentative."""
_READ_BYTES = 1 << 16
_ELSEWHERE = {socket.AF_INET: "192.0.2.1", socket.AF_INET6: "2001:db8::1"}
"""Of RFC 5737 and RFC 3849: addresses that no machine has."""


def global_addresses() -> tuple[str, ...]:
    """Return the addresses that other hosts can use, IPv4 first, the usual source address first.

    Those of the loopback and of one link alone are left out. Empty if the kernel does not tell.
    """
    found: dict[str, int] = {}
    with suppress(OSError, struct.error):
        found = {
            socket.inet_ntop(family, content): family
            for family, content in sorted(set(_told_by_kernel()))
        }
    usual = {_source(family) for family in set(found.values())}
    return tuple(sorted(found, key=lambda each: (found[each], each not in usual)))


def _source(family: int) -> str:
    """Return the address from which this host connects to others; empty: it has no route."""
    with socket.socket(family, socket.SOCK_DGRAM) as prober:
        try:
            prober.connect((_ELSEWHERE[socket.AddressFamily(family)], 9))  # nothing is sent
            return str(prober.getsockname()[0])
        except OSError:
            return ""


def _told_by_kernel() -> Iterator[tuple[int, bytes]]:
    """Yield the family and the bytes of each usable address of global scope."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0) as kernel:
        asked = _ADDRESS.pack(socket.AF_UNSPEC, 0, 0, 0, 0)
        size_bytes = _HEADER.size + len(asked)
        kernel.send(_HEADER.pack(size_bytes, _GET_ADDRESSES, _REQUEST_ALL, 1, 0) + asked)
        while True:
            told, start = kernel.recv(_READ_BYTES), 0
            while start < len(told):
                size_bytes, kind, *_ = _HEADER.unpack_from(told, start)
                if kind != _NEW_ADDRESS:
                    return  # all were told, or the kernel refuses
                yield from _address_in(told[start + _HEADER.size : start + size_bytes])
                start += max(_aligned(size_bytes), _HEADER.size)


def _address_in(message: bytes) -> Iterator[tuple[int, bytes]]:
    family, _, flags, scope, _ = _ADDRESS.unpack_from(message)
    if scope != _UNIVERSE or flags & _UNUSABLE or family not in _ELSEWHERE:
        return
    contents: dict[int, bytes] = {}
    start = _ADDRESS.size
    while start < len(message):
        size_bytes, kind = _ATTRIBUTE.unpack_from(message, start)
        contents[kind] = message[start + _ATTRIBUTE.size : start + size_bytes]
        start += max(_aligned(size_bytes), _ATTRIBUTE.size)
    content = contents.get(_IFA_LOCAL) or contents.get(_IFA_ADDRESS)  # of a tunnel: not the peer's
    if content is not None:
        yield family, content


def _aligned(size_bytes: int) -> int:
    return size_bytes + 3 & ~3


def free_port() -> int:
    """Return a TCP port on which nothing listens here now; 0 if the kernel has none."""
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])
    return 0
