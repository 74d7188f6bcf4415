"""Addresses of machines: a host and a port."""

from __future__ import annotations

import re
from typing import NamedTuple

from iriai.model.problem import UsageProblem

DEFAULT_PORT = 6174
"""The port on which machines of a cluster listen by default. Unassigned at IANA, and below the
ports that systems give to outgoing connections."""

PORT = re.compile("[0-9]{1,5}")


class Address(NamedTuple):
    """The address on which a machine listens."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def parse_address(text: str) -> Address:
    """`host`, `host:port`, `[v6]:port`; raises UsageProblem."""
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


def _is_name(host: str) -> bool:
    """Return whether the name can be looked up: for others, Python raises ValueError."""
    try:
        return bool(host.encode("idna"))
    except UnicodeError:
        return False
