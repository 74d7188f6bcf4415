"""The agent's connection to the process that watches for the owner of a machine."""

from __future__ import annotations

import logging
import socket
from contextlib import suppress

import msgspec

from iriai.launcher.contract.session_messages import (
    PACKET_BYTES_MAX,
    SESSION_LIVES_S,
    SESSION_VERSION,
    DisplayKind,
    SessionBegins,
    SessionLives,
    SessionRefused,
    SessionUsed,
)
from iriai.model.bounds import decoded

log = logging.getLogger(__name__)

RETRY_MIN_S, RETRY_MAX_S = 1.0, 60.0
"""Until the next trial to connect; twice as long each time."""
_encode = msgspec.msgpack.Encoder().encode


class SensorConnection:
    """Connects with one machine's process when there is one, and again when it is replaced."""

    def __init__(self, path: str, display: DisplayKind) -> None:
        self._path = path
        self._begins = _encode(SessionBegins(SESSION_VERSION, display))
        self._decoder = msgspec.msgpack.Decoder(SessionRefused)
        self._socket: socket.socket | None = None
        self._pause_s = RETRY_MIN_S
        self._last_words = ""
        self._is_refused = False
        """Whether the last word was that this agent is not heard."""
        self.due_s = 0.0
        """When it tries again to connect."""
        self._told_s = 0.0
        """When it last said something."""

    @property
    def fd(self) -> int | None:
        """What to wait for until it is readable; None: it is not connected."""
        return None if self._socket is None else self._socket.fileno()

    @property
    def next_s(self) -> float:
        """When it is to connect, or to say that the agent lives."""
        return self.due_s if self._socket is None else self._told_s + SESSION_LIVES_S

    def connect(self, now_s: float) -> None:
        """Connect, if that is due."""
        if self._socket is not None or now_s < self.due_s:
            return
        self._is_refused = False
        self.due_s, self._pause_s = now_s + self._pause_s, min(2 * self._pause_s, RETRY_MAX_S)
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        connection.setblocking(False)
        try:
            connection.connect(self._path)
            connection.send(self._begins)
        except OSError as error:
            connection.close()
            self._say(f"nobody listens: {error.strerror or error}")
            return
        self._socket, self._pause_s, self._told_s = connection, RETRY_MIN_S, now_s
        self._say("connected")

    def tell_used(self, now_s: float) -> None:
        """Say that somebody uses the session; where nobody listened until now too."""
        if self._socket is None and not self._is_refused:
            self.due_s = min(self.due_s, now_s)
            self.connect(now_s)
        self._tell(SessionUsed(), now_s)

    def tell_alive(self, now_s: float) -> None:
        """Say that the agent lives, if it has said nothing for long."""
        if self._socket is not None and now_s >= self.next_s:
            self._tell(SessionLives(), now_s)

    def _tell(self, message: SessionUsed | SessionLives, now_s: float) -> None:
        if self._socket is None:
            return
        self._told_s = now_s
        try:
            self._socket.send(_encode(message))
        except BlockingIOError:  # it has not read the last one yet
            return
        except OSError:
            self._close()

    def take(self, now_s: float) -> None:
        """Take in what it says, which is its last word."""
        if self._socket is None:
            return
        words = "it has ended"
        try:
            content = self._received(self._socket)
            if content:
                words = f"refused: {decoded(self._decoder, content).reason}"
                self._is_refused, self.due_s = True, now_s + RETRY_MAX_S
        except BlockingIOError:
            return
        except (OSError, ValueError) as error:
            words = str(error)
        self._say(words)
        self._close()

    @staticmethod
    def _received(connection: socket.socket) -> bytes:
        try:
            return connection.recv(PACKET_BYTES_MAX)
        except ConnectionResetError:  # it has not read all, and told why before it closed
            return connection.recv(PACKET_BYTES_MAX)

    def _close(self) -> None:
        if self._socket is not None:
            with suppress(OSError):
                self._socket.close()
            self._socket = None

    def _say(self, words: str) -> None:
        """Say it once."""
        if words != self._last_words:
            self._last_words = words
            log.info("%s: %s", self._path, words)
