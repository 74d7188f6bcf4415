"""A descriptor that takes as long to be closed as whoever made it likes."""

import os
import signal
import socket
import struct
from contextlib import ExitStack

PIECE = bytes(1 << 16)
FOREVER = struct.pack("ii", 1, 30_000)
"""SO_LINGER: to close waits for hours until the other end has taken all."""


def lingering() -> tuple[int, socket.socket]:
    """A descriptor whose closing waits for the other end, and that end."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        ours = socket.create_connection(server.getsockname())
        other, _ = server.accept()
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, FOREVER)
    ours.setblocking(False)
    try:
        while True:
            ours.send(PIECE)
    except BlockingIOError:
        return ours.detach(), other


def pass_lingering(
    connection: socket.socket, count: int, others: ExitStack, taker_pid: int
) -> None:
    """Pass so many beside a frame that does not end; `others` closes their other ends.

    Whoever takes them in has the last copies, and so is who waits: the process `taker_pid` is
    stopped until they are closed here.
    """
    slow = [lingering() for _ in range(count)]
    os.kill(taker_pid, signal.SIGSTOP)
    try:
        socket.send_fds(connection, [b"\0\0"], [descriptor for descriptor, _ in slow])
        for descriptor, other in slow:
            os.close(descriptor)
            others.enter_context(other)
    finally:
        os.kill(taker_pid, signal.SIGCONT)
