"""The words that an agent and a Wayland compositor say; the test is the compositor."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from iriai.session.source import QUIET_MS, NoSource, SessionOver
from iriai.session.wayland import WaylandSource

DISPLAY, REGISTRY, SYNC, NOTIFIER, SEAT, NOTIFICATION = 1, 2, 3, 4, 5, 6
HAS = ((7, "wl_compositor", 5), (11, "wl_seat", 8), (23, "ext_idle_notifier_v1", 1))
"""As KWin 5.27 lists them, among others."""


def message(sender: int, event: int, body: bytes = b"") -> bytes:
    return struct.pack("=II", sender, (8 + len(body)) << 16 | event) + body


def text(word: str) -> bytes:
    content = word.encode() + b"\0"
    return struct.pack("=I", len(content)) + content + bytes(-len(content) % 4)


def bound(name: int, word: str, number: int) -> bytes:
    """How a global is taken."""
    body = struct.pack("=I", name) + text(word) + struct.pack("=II", 1, number)
    return message(REGISTRY, 0, body)


def listed(has=HAS) -> bytes:
    """What a compositor answers to who asks what it has."""
    answers = [
        message(REGISTRY, 0, struct.pack("=I", name) + text(word) + struct.pack("=I", version))
        for name, word, version in has
    ]
    done = message(SYNC, 0, bytes(4)) + message(DISPLAY, 1, struct.pack("=I", SYNC))
    return b"".join(answers) + done


class Compositor:
    """One connection of it."""

    def __init__(self, folder: Path) -> None:
        self.listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listening.bind(str(folder / "wayland-9"))
        self.listening.listen()
        self.environment = {"XDG_RUNTIME_DIR": str(folder), "WAYLAND_DISPLAY": "wayland-9"}
        self.connection: socket.socket | None = None
        self.sources: list[WaylandSource] = []

    def source(self, answer: bytes, in_pieces: int = 0) -> WaylandSource:
        """An agent that connects, and is answered."""

        def serve() -> None:
            self.connection, _ = self.listening.accept()
            size = in_pieces or len(answer) or 1
            for begin in range(0, len(answer), size):
                self.connection.sendall(answer[begin : begin + size])
            if not answer:
                self.connection.shutdown(socket.SHUT_RDWR)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            self.sources.append(WaylandSource(self.environment))
        finally:
            thread.join()
        return self.sources[-1]

    def say(self, content: bytes) -> None:
        assert self.connection is not None
        self.connection.sendall(content)

    def close(self) -> None:
        for source in self.sources:
            source._socket.close()
        for each in (self.connection, self.listening):
            if each is not None:
                each.close()


@pytest.fixture
def compositor(tmp_path: Path) -> Iterator[Compositor]:
    compositor = Compositor(tmp_path)
    yield compositor
    compositor.close()


def test_it_asks_for_notifications_of_each_seat_and_nothing_else(compositor: Compositor):
    compositor.source(listed())
    assert compositor.connection is not None
    asked = compositor.connection.recv(4096)
    assert asked == (
        message(DISPLAY, 1, struct.pack("=I", REGISTRY))
        + message(DISPLAY, 0, struct.pack("=I", SYNC))
        + bound(23, "ext_idle_notifier_v1", NOTIFIER)
        + bound(11, "wl_seat", SEAT)
        + message(NOTIFIER, 1, struct.pack("=III", NOTIFICATION, QUIET_MS, SEAT))
    )


@pytest.mark.parametrize("size", [0, 1, 7])
def test_a_session_is_in_use_until_it_is_idle_and_again_when_it_is_resumed(
    compositor: Compositor, size: int
):
    source = compositor.source(listed(), size)
    assert source.take() is True
    assert source.take() is None
    compositor.say(message(SEAT, 0, struct.pack("=I", 3)))  # what the seat has
    assert source.take() is None
    compositor.say(message(NOTIFICATION, 0))
    assert source.take() is False
    compositor.say(message(NOTIFICATION, 1)[:5])
    assert source.take() is None
    compositor.say(message(NOTIFICATION, 1)[5:])
    assert source.take() is True
    compositor.say(message(NOTIFICATION, 0) + message(NOTIFICATION, 1))
    assert source.take() is True


def test_any_of_two_seats_is_enough(compositor: Compositor):
    source = compositor.source(listed((*HAS, (40, "wl_seat", 8))))
    source.take()
    compositor.say(message(NOTIFICATION, 0))
    assert source.take() is None
    compositor.say(message(NOTIFICATION + 2, 0))
    assert source.take() is False
    compositor.say(message(NOTIFICATION + 2, 1))
    assert source.take() is True


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (listed(HAS[:2]), "no ext-idle-notify-v1"),
        (listed(HAS[2:]), "no seat"),
        (b"", "closed the connection"),
        (message(DISPLAY, 0, struct.pack("=II", 2, 0) + text("no")), "refuses"),
        (b"HTTP/1.1 400 Bad Request\r\n", "does not speak Wayland"),
        (struct.pack("=II", 2, 3 << 16), "does not speak Wayland"),
        (message(REGISTRY, 0, b"\1\0\0\0"), "does not speak Wayland"),
        (message(REGISTRY, 0, struct.pack("=II", 1, 1 << 31)), "does not speak Wayland"),
    ],
)
def test_another_compositor_says_why_not(compositor: Compositor, answer: bytes, why: str):
    with pytest.raises(NoSource, match=why):
        compositor.source(answer)


def test_it_ends_with_the_compositor(compositor: Compositor):
    source = compositor.source(listed())
    source.take()
    assert compositor.connection is not None
    compositor.connection.close()
    with pytest.raises(SessionOver):
        source.take()


def test_without_a_compositor_it_says_so(tmp_path: Path):
    for environment in ({}, {"WAYLAND_DISPLAY": "w", "XDG_RUNTIME_DIR": str(tmp_path)}):
        with pytest.raises(NoSource):
            WaylandSource(environment)
