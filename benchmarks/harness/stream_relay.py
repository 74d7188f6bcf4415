"""A plain relay: standard input through processes in a row and through `cat`, and back.

`python stream_relay.py HOPS plain|tls`: each process copies both ways between two sockets, one
thread each way; with `tls` the last but one speaks TLS with the last.
"""

from __future__ import annotations

import os
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

PIECE_BYTES = 1 << 16

Pairs = list[tuple[socket.socket, socket.socket]]
Ways = tuple[Pairs, Pairs]
Settings = tuple[ssl.SSLContext, ssl.SSLContext]


def copy(source: socket.socket, target: socket.socket) -> None:
    """Copy until the end of `source`, and tell `target` of it."""
    while data := source.recv(PIECE_BYTES):
        target.sendall(data)
    target.close()


def contexts() -> Settings:
    """Return both ends' settings, with a certificate made for this run."""
    folder = Path(tempfile.mkdtemp(prefix="iriai-relay-"))
    key, certificate = str(folder / "key"), str(folder / "certificate")
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    words += ["-nodes", "-subj", "/CN=relay", "-keyout", key, "-out", certificate]
    subprocess.run(words, check=True, capture_output=True)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate, key)
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    shutil.rmtree(folder)
    return server, client


def relay(ways: Ways, hop: int, tls: int, settings: Settings) -> None:
    """Be one process of the row: copy one way on one pair of connections, back on another."""
    server, client = settings

    def one(source: socket.socket, target: socket.socket, *, reads: bool, writes: bool) -> None:
        near = server.wrap_socket(source, server_side=True) if reads else source
        far = client.wrap_socket(target) if writes else target
        copy(near, far)

    there, back = ways
    onward = threading.Thread(
        target=one,
        args=(there[hop][1], there[hop + 1][0]),
        kwargs={"reads": hop == tls, "writes": hop + 1 == tls},
    )
    onward.start()
    one(back[hop + 1][1], back[hop][0], reads=hop + 1 == tls, writes=hop == tls)
    onward.join()


def main() -> None:
    """Make the processes, and be the first of them."""
    hops, kind = int(sys.argv[1]), sys.argv[2]
    settings, tls = contexts(), hops - 1 if kind == "tls" else -1
    there, back = ([socket.socketpair() for _ in range(hops + 1)] for _ in range(2))
    every = [end for way in (there, back) for pair in way for end in pair]
    for hop in range(hops):
        if os.fork() == 0:
            own = {there[hop][1], there[hop + 1][0], back[hop + 1][1], back[hop][0]}
            for end in every:
                if end not in own:
                    end.close()
            relay((there, back), hop, tls, settings)
            os._exit(0)
    source, sink = there[hops][1].fileno(), back[hops][0].fileno()
    with subprocess.Popen(["cat"], stdin=source, stdout=sink):
        first, last = there[0][0], back[0][1]
        for end in every:
            if end not in (first, last):
                end.close()
        out = threading.Thread(target=_to_output, args=(last,))
        out.start()
        while data := os.read(0, PIECE_BYTES):
            first.sendall(data)
        first.close()
        out.join()


def _to_output(source: socket.socket) -> None:
    while data := source.recv(PIECE_BYTES):
        view = memoryview(data)
        while view:
            view = view[os.write(1, view) :]


if __name__ == "__main__":
    main()
