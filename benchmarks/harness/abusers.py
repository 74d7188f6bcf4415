"""What one ordinary user, or somebody on the network, does to stop a service; bounded in time.

Each abuser sends to whatever listens at its `place` until its time is over, without waiting for
answers, and begins again when it is cut off.
"""

from __future__ import annotations

import os
import resource
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from iriai.client import draft
from iriai.system.frames import frame
from iriai.wire.changes import Cancel
from iriai.wire.envelopes import Request, RequestBody
from iriai.wire.requests import (
    PROTOCOL_VERSION,
    Hello,
    Submit,
)

PAUSE_S = 0.005
"""After a refusal: thousands of processes that do nothing else would be many users."""
CONNECTIONS = 1_000
SILENT = 300
IDS = 20_000
PATTERN = "name:" + "[" * 12_000
UNFINISHED_BYTES = 10 << 20
VARIABLES, VARIABLE_BYTES = 9, 100_000
DESCRIPTORS_KEPT = 50

Socket = socket.socket


class Place(NamedTuple):
    """Where something listens."""

    unix: str = ""
    host: str = ""
    port: int = 0
    member: tuple[str, Any] | None = None
    """Name and TLS context of a member; None: whoever listens speaks no TLS."""

    def connect(self) -> Socket:
        """A connection."""
        if self.unix:
            found = Socket(socket.AF_UNIX, socket.SOCK_STREAM)
            found.settimeout(1.0)
            found.connect(self.unix)
            return found
        return socket.create_connection((self.host, self.port), 1.0)


def _request(body: RequestBody) -> bytes:
    return frame(msgspec.msgpack.encode(Request(1, body)))


_HELLO = _request(Hello(PROTOCOL_VERSION))


def _send(found: Socket, content: bytes) -> None:
    """Send all; take in and drop what came meanwhile."""
    found.sendall(content)
    found.setblocking(False)
    try:
        while found.recv(1 << 18):
            pass
        raise ConnectionResetError("it was closed")
    except (BlockingIOError, ssl.SSLWantReadError):
        pass
    finally:
        found.settimeout(1.0)


@contextmanager
def _greeted(place: Place) -> Iterator[Socket]:
    with place.connect() as found:
        _send(found, _HELLO)
        yield found


def _again(until_s: float, attempt: Callable[[], None]) -> None:
    while time.monotonic() < until_s:
        with suppress(OSError):
            attempt()
        time.sleep(PAUSE_S)


def _keep_open(place: Place, until_s: float, most: int, first: bytes) -> None:
    kept: list[Socket] = []
    with ExitStack() as stack:
        while time.monotonic() < until_s:
            try:
                found = stack.enter_context(place.connect())
                if first:
                    _send(found, first)
                kept.append(found)
            except OSError:
                time.sleep(PAUSE_S)
            if len(kept) >= most:
                kept.pop(0).close()


def connections(place: Place, until_s: float) -> None:
    """Very many connections, kept open."""
    _keep_open(place, until_s, CONNECTIONS, _HELLO)


def silent_peers(place: Place, until_s: float) -> None:
    """Connections to the port on which nothing is said."""
    _keep_open(place, until_s, SILENT, b"")


def frames(place: Place, until_s: float) -> None:
    """Frames that are no message, and large ones that never end."""
    nested = frame(b"\x91" * 3_000)
    unfinished = (64 << 20).to_bytes(4, "big") + bytes(UNFINISHED_BYTES)

    def attempt() -> None:
        with place.connect() as found:
            _send(found, nested)
        with _greeted(place) as found:
            _send(found, nested)
        with ExitStack() as stack:
            for _ in range(DESCRIPTORS_KEPT):
                _send(stack.enter_context(_greeted(place)), unfinished)

    _again(until_s, attempt)


def _requests(place: Place, until_s: float, content: bytes) -> None:
    def attempt() -> None:
        with _greeted(place) as found:
            while time.monotonic() < until_s:
                _send(found, content)

    _again(until_s, attempt)


def ids(place: Place, until_s: float) -> None:
    """Requests that name very many jobs."""
    _requests(place, until_s, _request(Cancel(tuple(f"ume-{n}" for n in range(IDS)))))


def patterns(place: Place, until_s: float) -> None:
    """Patterns that take long to match."""
    _requests(place, until_s, _request(Cancel((PATTERN,))))


def environments(place: Place, until_s: float) -> None:
    """Held jobs whose environments are as large as may be, each another."""

    def attempt() -> None:
        with _greeted(place) as found:
            number = 0
            while time.monotonic() < until_s:
                number += 1
                fill = f"{number}" + "x" * VARIABLE_BYTES
                environment = {f"FILL{each}": fill for each in range(VARIABLES)}
                job = draft(["true"], cwd=Path("/"), env=environment, held=True)
                _send(found, _request(Submit(job)))

    _again(until_s, attempt)


def submissions(place: Place, until_s: float) -> None:
    """Jobs, as fast as they are taken, each of which waits for ever.

    Jobs that run get their user's share of the cpus, which is as much as the honest user's: that
    says nothing of the service.
    """
    job = draft(
        ["sleep", "5"],
        cwd=Path("/tmp"),
        env={"PATH": "/usr/bin:/bin"},
        output="/dev/null",
        gpus=1,
        wait_for_resources=True,
    )
    _requests(place, until_s, _request(Submit(job)) * 10)


def signatures(place: Place, until_s: float) -> None:
    """A member's link that brings entries with signatures that do not fit."""
    from harness.live_network import forged_entries

    first, content = forged_entries(place.member[0] if place.member else "oni")

    def attempt() -> None:
        with ExitStack() as stack:
            found = stack.enter_context(place.connect())
            if place.member is not None:
                found = stack.enter_context(place.member[1].wrap_socket(found))
            for word in first:
                found.sendall(word)
                if place.member is not None and word is first[0]:
                    found.recv(1 << 16)
            while time.monotonic() < until_s:
                _send(found, content)

    _again(until_s, attempt)


LOCAL: dict[str, Callable[[Place, float], None]] = {
    "connections": connections,
    "frames": frames,
    "ids": ids,
    "patterns": patterns,
    "environments": environments,
    "submissions": submissions,
}
REMOTE: dict[str, Callable[[Place, float], None]] = {
    "silent_peers": silent_peers,
    "signatures": signatures,
}


def allow_descriptors() -> None:
    """Have as many descriptors as may be had."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def begin(
    kind: Callable[[Place, float], None], place: Place, seconds: float, uid: int, gid: int
) -> int:
    """Start an abuser in a process of its own, as that user; returns its pid."""
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)
        allow_descriptors()
        kind(place, time.monotonic() + seconds)
    finally:
        os._exit(0)
