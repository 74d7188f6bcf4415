"""A descriptor that takes as long to be closed as whoever made it likes."""

import socket
import struct

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
