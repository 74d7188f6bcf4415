"""Addresses of machines: a host and a port."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

from iriai.model.problem import UsageProblem

DEFAULT_PORT = 6174
"""The port on which machines of a cluster listen by default. Unassigned at IANA, and below the
ports that systems give to outgoing connections."""

PORT = re.compile("[0-9]{1,5}")
ADDRESS_TEXT = re.compile(r"[^\s:]{1,253}:\d{1,5}|\[[0-9a-fA-F:.%a-z]{2,60}\]:\d{1,5}")
"""A published address: a host name or an IP address, IPv6 in brackets, and a port."""
HOST_SCHEME = "unix:/"
"""How the address of a socket within this host begins. None is published, or taken from others."""
ADDRESSES_MAX = 8
"""Addresses of one machine that others are told, and try in turn."""
_ANY = {"0.0.0.0": ".", "::": ":"}  # noqa: S104 - nothing is bound here
"""Hosts that stand for all addresses of a family, with what is in each address of it."""


def host_address(path: str) -> str:
    """Return the address of the socket at the absolute `path` of this host."""
    return f"{HOST_SCHEME}{path.removeprefix('/')}"


def socket_path(address: str) -> str:
    """Return the path that `host_address` was given; empty: the address is one of a network."""
    return address.removeprefix("unix:") if address.startswith(HOST_SCHEME) else ""


class Address(NamedTuple):
    """The address on which a machine listens."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def parse_address(text: str) -> Address:
    """Parse `host`, `host:port` or `[v6]:port`; raise UsageProblem."""
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        host, port = text, str(DEFAULT_PORT)
    host = host.removeprefix("[").removesuffix("]")
    if not (_is_name(host) and PORT.fullmatch(port) and 0 < int(port) < 1 << 16):
        raise UsageProblem(
            "bad-address",
            f"'{text}' is not an address",
            "write HOST:PORT, as in ume.example.org:6174",
        )
    return Address(host, int(port))


def host_of(addresses: Iterable[str]) -> str:
    """Return the host of the first published address among them; empty: there is none."""
    found = next(filter(ADDRESS_TEXT.fullmatch, addresses), "")
    return parse_address(found).host if found else ""


def published_addresses(
    listen: Address, first: Iterable[str], interfaces: Iterable[str], host_name: str
) -> tuple[str, ...]:
    """Return the addresses at which a machine may be reached, the best first.

    `first` are those that are configured or known to work, `interfaces` its IP addresses. Its name
    comes last: where no name service knows it, an address works all the same.
    """
    if listen.host in _ANY:
        mark = _ANY[listen.host]
        hosts = [*(each for each in interfaces if mark in each), host_name]
    else:
        hosts = [listen.host]
    told = dict.fromkeys((*first, *(str(Address(host, listen.port)) for host in hosts)))
    return tuple(islice(filter(ADDRESS_TEXT.fullmatch, told), ADDRESSES_MAX))


def _is_name(host: str) -> bool:
    """Return whether the name can be looked up: for others, Python raises ValueError."""
    try:
        return bool(host.encode("idna"))
    except UnicodeError:
        return False
