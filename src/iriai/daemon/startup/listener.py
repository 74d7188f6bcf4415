"""The daemon's sockets, bound while the process still has privileges."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from iriai.model.address import Address
from iriai.model.problem import Refused
from iriai.system.atomic_files import Owner

_BACKLOG = 512
"""Machines that may wait while the daemon is busy; the system caps it."""
_LOCAL_BACKLOG = 64
"""The same of local clients. The others wait in connect(2), where places are given in the order in
which they were asked for: whoever connects without waiting fills this queue alone."""


def listen(path: str, *, everybody: bool, owner: Owner | None = None) -> socket.socket:
    """Return a socket that listens at `path`, in place of a stale one.

    The caller holds the lock of the state directory, so a socket that exists is stale. With
    `everybody` all users may connect; the kernel identifies them. Else root and `owner` (user and
    group id; None: this user) may. Raises OSError.
    """
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    mask = os.umask(0o111 if everybody else 0o177)
    try:
        Path(path).unlink(missing_ok=True)
        listener.bind(path)
        if owner is not None:
            os.chown(path, *owner, follow_symlinks=False)
        listener.listen(_LOCAL_BACKLOG)
    except BaseException:
        listener.close()
        raise
    finally:
        os.umask(mask)
    return listener


def open_doors(address: Address) -> tuple[socket.socket, ...]:
    """Return listening sockets for other machines at `address`.

    Raises:
        Refused: it cannot be used, with the reason.
    """
    try:
        found = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        family, _, _, _, place = found[0]
        return (socket.create_server(place[:2], family=family, backlog=_BACKLOG),)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
        raise Refused(
            "cannot-listen",
            f"no connections can be accepted at {address} ({reason})",
            "set another address with [cluster] listen, or outward_only = true if no machine "
            "can connect to this one",
        ) from None
