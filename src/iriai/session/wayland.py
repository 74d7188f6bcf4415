"""Sessions of Wayland compositors that have ext-idle-notify-v1 (KWin, and those on wlroots).

The compositor tells that nobody was there for a while, and that somebody is there again. Five
requests and four events of the protocol are all that takes:
https://wayland.freedesktop.org/docs/html/ch04.html and wayland-protocols, staging/ext-idle-notify.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator, Mapping

from iriai.launcher.contract.session_messages import DisplayKind
from iriai.session.source import QUIET_MS, NoSource, SessionOver

NOTIFIER, SEAT = "ext_idle_notifier_v1", "wl_seat"
ANSWER_MAX_S = 10.0
MESSAGE_BYTES_MAX = 1 << 16
_DISPLAY, _REGISTRY, _FIRST_SYNC = 1, 2, 3
_SYNC, _GET_REGISTRY, _BIND, _GET_NOTIFICATION = 0, 1, 0, 1
"""Requests of wl_display, wl_registry and ext_idle_notifier_v1."""
_ERROR, _GLOBAL, _IDLED, _RESUMED = 0, 0, 0, 1
"""Events of wl_display, wl_registry and ext_idle_notification_v1."""
_HEADER = struct.Struct("=II")


class WaylandSource:
    """One connection to a compositor."""

    display = DisplayKind.WAYLAND

    def __init__(self, environment: Mapping[str, str]) -> None:
        """Raises `NoSource`."""
        name = environment.get("WAYLAND_DISPLAY", "")
        base = environment.get("XDG_RUNTIME_DIR", "")
        path = name if name.startswith("/") else f"{base}/{name}"
        if not name:
            raise NoSource("WAYLAND_DISPLAY is not set")
        self._held = bytearray()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(ANSWER_MAX_S)
        try:
            self._socket.connect(path)
            self._ask(_DISPLAY, _GET_REGISTRY, struct.pack("=I", _REGISTRY))
            self._notifications = self._watch(self._globals())
        except (OSError, SessionOver) as error:
            self._socket.close()
            is_closed = isinstance(error, BrokenPipeError | ConnectionResetError)
            why = "it has closed the connection" if is_closed else error
            raise NoSource(f"the compositor at {path}: {why}") from error
        self._socket.setblocking(False)
        self._used = dict.fromkeys(self._notifications)
        """By seat, until it is idle."""
        self._is_told = False

    def fileno(self) -> int:
        """Return the connection."""
        return self._socket.fileno()

    def take(self) -> bool | None:
        """Take in what the compositor has told; it begins as in use, until it is idle."""
        was_used, is_resumed = bool(self._used), not self._is_told
        self._is_told = True
        while True:
            try:
                content = self._socket.recv(MESSAGE_BYTES_MAX)
            except BlockingIOError:
                break
            except OSError as error:
                raise SessionOver(f"the compositor is gone: {error}") from error
            if not content:
                raise SessionOver("the compositor has ended")
            self._held += content
            for sender, event, _ in self._events():
                if sender in self._notifications and event == _IDLED:
                    self._used.pop(sender, None)
                elif sender in self._notifications and event == _RESUMED:
                    self._used[sender] = None
                    is_resumed = True
        if self._used and is_resumed:
            return True
        return False if was_used and not self._used else None

    def _watch(self, found: dict[str, list[tuple[int, int]]]) -> dict[int, None]:
        """Ask for notifications of all seats; return their objects. Raises `SessionOver`."""
        if not found.get(NOTIFIER) or not found.get(SEAT):
            raise SessionOver("it has no ext-idle-notify-v1, or no seat")
        notifier, number = _FIRST_SYNC + 1, _FIRST_SYNC + 2
        self._bind(*found[NOTIFIER][0], NOTIFIER, notifier)
        notifications: dict[int, None] = {}
        for seat in found[SEAT]:
            self._bind(*seat, SEAT, number)
            words = struct.pack("=III", number + 1, QUIET_MS, number)
            self._ask(notifier, _GET_NOTIFICATION, words)
            notifications[number + 1] = None
            number += 2
        return notifications

    def _globals(self) -> dict[str, list[tuple[int, int]]]:
        """Return what the compositor has: by interface, names and versions."""
        self._ask(_DISPLAY, _SYNC, struct.pack("=I", _FIRST_SYNC))
        found: dict[str, list[tuple[int, int]]] = {}
        while True:
            content = self._socket.recv(MESSAGE_BYTES_MAX)
            if not content:
                raise SessionOver("it has closed the connection")
            self._held += content
            for sender, event, body in self._events():
                if sender == _FIRST_SYNC:
                    return found
                if (sender, event) == (_REGISTRY, _GLOBAL):
                    name, interface, version = _global(body)
                    found.setdefault(interface, []).append((name, version))

    def _events(self) -> Iterator[tuple[int, int, bytes]]:
        """Yield the whole messages that are held: object, event, arguments."""
        held = self._held
        while len(held) >= _HEADER.size:
            sender, word = _HEADER.unpack_from(held)
            size, event = word >> 16, word & 0xFFFF
            if size < _HEADER.size or size % 4:
                raise SessionOver("the compositor does not speak Wayland")
            if len(held) < size:
                return
            body = bytes(held[_HEADER.size : size])
            del held[:size]
            if (sender, event) == (_DISPLAY, _ERROR):
                raise SessionOver("the compositor refuses what was asked")
            yield sender, event, body

    def _bind(self, name: int, version: int, interface: str, number: int) -> None:
        """Take a global in version 1, which all have."""
        words = struct.pack("=I", name) + _text(interface) + struct.pack("=II", 1, number)
        self._ask(_REGISTRY, _BIND, words)

    def _ask(self, number: int, request: int, words: bytes) -> None:
        size = _HEADER.size + len(words)
        self._socket.sendall(_HEADER.pack(number, size << 16 | request) + words)


def _text(text: str) -> bytes:
    """Return a string as the protocol has it: its length, a zero at its end, filled up to words."""
    content = text.encode() + b"\0"
    return struct.pack("=I", len(content)) + content + b"\0" * (-len(content) % 4)


def _global(body: bytes) -> tuple[int, str, int]:
    """Return name, interface and version of a global. Raises `SessionOver`."""
    try:
        name, length = struct.unpack_from("=II", body)
        interface = body[8 : 8 + length - 1].decode()
        (version,) = struct.unpack_from("=I", body, 8 + (length + 3) // 4 * 4)
    except (struct.error, ValueError) as error:
        raise SessionOver("the compositor does not speak Wayland") from error
    return name, interface, version
