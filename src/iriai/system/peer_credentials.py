"""Who is at the other end of a Unix socket, as the kernel says."""

from __future__ import annotations

import socket
import struct
from typing import NamedTuple

_CREDENTIALS = struct.Struct("iII")


class PeerCredentials(NamedTuple):
    """The process that connected, as it was when it did."""

    pid: int
    uid: int
    gid: int


def peer_of(connection: socket.socket) -> PeerCredentials:
    """Whom `connection`, a connected Unix socket, leads to. Raises OSError."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return PeerCredentials(*_CREDENTIALS.unpack(raw))
