"""The sensor of graphical sessions: agents in them say when somebody uses one.

A session at a screen uses input devices, which the kernel shows; a remote one does not. What an
agent is cannot be known, only whose it is: so it may say that somebody is there, and nothing else.
"""

from __future__ import annotations

import math
import os
import socket
from collections.abc import Collection
from contextlib import suppress

import msgspec

from iriai.launcher.contract.session_messages import (
    PACKET_BYTES_MAX,
    SESSION_LIVES_S,
    SESSION_VERSION,
    DisplayKind,
    FromAgent,
    SessionBegins,
    SessionLives,
    SessionRefused,
    SessionUsed,
)
from iriai.launcher.owner.session_users import AgentNotHeard, SessionUsers
from iriai.model.bounds import decoded
from iriai.model.owner import SensorState, SignKind
from iriai.system.passwd_cache import peer_of

AGENTS_MAX = 256
"""Connected at once."""
OF_USER_MAX = 8
"""The same, of one user."""
ACCEPTS_MAX, ACCEPT_REST_S = 8, 0.05
"""So many connections are taken, then none for so long: whoever connects all the time costs no
more."""
PACKETS_MAX = 16
"""Of one agent, read at once."""
SILENT_MAX = 3
"""At so many looks, one each `SESSION_LIVES_S`, an agent has said nothing since the one before, and
counts no more. Looks are counted, and not seconds: when the machine wakes, one of them is over."""
LIVES_MAX = 16
"""So often it may say between two looks that it lives: nobody listens any longer then."""
RETRY_S = 10.0
"""Until the next trial to listen."""
NAMED_MAX = 4
"""Agents that are named to people."""
_BACKLOG = 64
_encode = msgspec.msgpack.Encoder().encode


class _Agent:
    """One connection."""

    def __init__(self, connection: socket.socket, uid: int, user: str) -> None:
        self.connection = connection
        self.uid = uid
        self.user = user
        self.display: DisplayKind | None = None
        """None: it has not begun yet."""
        self.silent = 0
        """The looks since it last said something."""
        self.lives = 0
        """How often it has said since the last look that it lives."""

    @property
    def is_silent(self) -> bool:
        """Return whether it counts no more: it was stopped, or hangs."""
        return self.silent >= SILENT_MAX

    @property
    def words(self) -> str:
        """Return whose it is, for people."""
        return f"{self.user} ({self.display})"


class SessionSensor:
    """Listens at `path` for the agents of these users."""

    kind = SignKind.SESSION

    def __init__(self, path: str, users: SessionUsers) -> None:
        self._path = path
        self._users = users
        self._listening: socket.socket | None = None
        self._place = 0
        """The number of its file."""
        self._agents: dict[int, _Agent] = {}
        """By descriptor."""
        self._decoder = msgspec.msgpack.Decoder(FromAgent)
        self._rest_until_s = 0.0
        self._listen_due_s = 0.0
        self._look_due_s = math.inf
        """When silent agents are looked for; infinite: there are none at all."""
        self._problem = ""
        """Why nobody can connect."""
        self._last_user = ""
        """Whose agent spoke last."""

    def close(self) -> None:
        """Leave all agents, and the socket, unless another process has put its own in place."""
        for agent in self._agents.values():
            agent.connection.close()
        if self._listening is not None:
            self._listening.close()
            with suppress(OSError):
                if os.stat(self._path).st_ino == self._place:
                    os.unlink(self._path)

    def descriptors(self, now_s: float) -> list[int]:
        """Return what to wait for until it is readable, or `due_s` has come."""
        result = list(self._agents)
        if self._listening is not None and now_s >= self._rest_until_s:
            result.append(self._listening.fileno())
        return result

    def due_s(self) -> float:
        """Return when `take` is to be called although nothing is readable; infinite: never."""
        due_s = min(self._listen_due_s, self._look_due_s)
        return min(due_s, self._rest_until_s) if self._rest_until_s > 0.0 else due_s

    def take(self, readable: Collection[int], now_s: float) -> bool:
        """Take in what has come; return whether there was a sign."""
        if now_s >= self._rest_until_s:
            self._rest_until_s = 0.0
        if now_s >= self._listen_due_s:
            self._listen(now_s)
        if self._listening is not None and self._listening.fileno() in readable:
            self._rest_until_s = now_s + ACCEPT_REST_S
            self._accept(self._listening)
        is_used = False
        for fd, agent in list(self._agents.items()):
            if fd in readable and self._hear(agent):
                is_used, self._last_user = True, agent.user
        self._look(now_s)
        return is_used

    def _look(self, now_s: float) -> None:
        """Count what is not heard of, if that is due."""
        if not self._agents:
            self._look_due_s = math.inf
        elif self._look_due_s == math.inf:
            self._look_due_s = now_s + SESSION_LIVES_S
        elif now_s >= self._look_due_s:
            self._look_due_s = now_s + SESSION_LIVES_S
            for agent in self._agents.values():
                agent.silent, agent.lives = agent.silent + 1, 0

    def state(self) -> SensorState:
        """Return how it does: it needs an agent."""
        if self._problem:
            return SensorState(self.kind, False, self._problem)
        begun = [each for each in self._agents.values() if each.display is not None]
        if not begun:
            return SensorState(
                self.kind, False, "no session agent is connected: iriai session-agent"
            )
        silent = [each.words for each in begun if each.is_silent]
        if len(silent) == len(begun):
            words = f"agents of {_named(silent)} say nothing any more: they were stopped, or hang"
            return SensorState(self.kind, False, words)
        words = f"agents of {_named([each.words for each in begun if not each.is_silent])}"
        words += f"; the last sign was of {self._last_user}" if self._last_user else ""
        words += f"; those of {_named(silent)} say nothing any more" if silent else ""
        return SensorState(self.kind, True, words)

    def _listen(self, now_s: float) -> None:
        self._listen_due_s = math.inf
        try:
            self._listening, self._problem = _listening_at(self._path), ""
            self._place = os.stat(self._path).st_ino
        except OSError as error:
            self._problem = f"{self._path}: {error.strerror or error}"
            self._listen_due_s = now_s + RETRY_S

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(ACCEPTS_MAX):
            try:
                connection, _ = listening.accept()
            except OSError:  # there is no other, or no descriptor left
                return
            connection.setblocking(False)
            try:
                peer = peer_of(connection)
                user = self._users.name_of(peer)
                of_user = sum(each.uid == peer.uid for each in self._agents.values())
                if of_user >= OF_USER_MAX or len(self._agents) >= AGENTS_MAX:
                    raise AgentNotHeard("there are too many agents already")
            except AgentNotHeard as refused:
                _refuse(connection, str(refused))
            else:
                self._agents[connection.fileno()] = _Agent(connection, peer.uid, user)

    def _hear(self, agent: _Agent) -> bool:
        """Read what an agent says; return whether its session is used."""
        is_used, fd = False, agent.connection.fileno()
        try:
            for _ in range(PACKETS_MAX):
                content = agent.connection.recv(PACKET_BYTES_MAX + 1)
                if not content:  # it has ended
                    break
                is_used = self._take(agent, content) or is_used
            else:
                return is_used
        except BlockingIOError:
            return is_used
        except OSError:
            pass
        except ValueError as problem:
            _refuse(agent.connection, f"this is not what an agent may say: {problem}")
        del self._agents[fd]
        agent.connection.close()
        return is_used

    def _take(self, agent: _Agent, content: bytes) -> bool:
        """Take in one message; return whether the session is used. Raises ValueError."""
        if len(content) > PACKET_BYTES_MAX:
            raise ValueError(f"it is longer than {PACKET_BYTES_MAX} bytes")
        agent.silent = 0
        match decoded(self._decoder, content):
            case SessionBegins(version, display) if agent.display is None:
                if version != SESSION_VERSION:
                    raise ValueError(f"version {version}, and {SESSION_VERSION} is spoken here")
                agent.display = display
                return False
            case SessionUsed() if agent.display is not None:
                return True
            case SessionLives() if agent.display is not None:
                agent.lives += 1
                if agent.lives > LIVES_MAX:
                    raise ValueError("it says again and again that it lives")
                return False
        raise ValueError("it is not its turn")


def _named(names: list[str]) -> str:
    more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
    return f"{', '.join(sorted(names)[:NAMED_MAX])}{more}"


def _listening_at(path: str) -> socket.socket:
    """Return a socket to which every user can connect. Raises OSError."""
    result, fresh = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET), f"{path}.new"
    mask = os.umask(0o111)
    try:
        with suppress(FileNotFoundError):
            os.unlink(fresh)
        result.bind(fresh)
        result.setblocking(False)
        result.listen(_BACKLOG)
        os.rename(fresh, path)  # in place of that of the process before
    except OSError:
        result.close()
        raise
    finally:
        os.umask(mask)
    return result


def _refuse(connection: socket.socket, reason: str) -> None:
    """Tell why, if there is room for it, and close the connection."""
    with suppress(OSError):
        connection.send(_encode(SessionRefused(reason[:120])))
    connection.close()
