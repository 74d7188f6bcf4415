"""What an agent tells the process with the sensors, and when; the test is that process."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from iriai.launcher.contract.session_messages import (
    SESSION_LIVES_S,
    SESSION_VERSION,
    DisplayKind,
    FromAgent,
    SessionBegins,
    SessionLives,
    SessionUsed,
)
from iriai.session.sensor_connection import SensorConnection

BEGINS = SessionBegins(SESSION_VERSION, DisplayKind.X11)


class Sensors:
    """The other end, and a connection to it."""

    def __init__(self, path: Path) -> None:
        self.listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listening.bind(str(path))
        self.listening.listen()
        self.agent = SensorConnection(str(path), DisplayKind.X11)
        self.agent.connect(0.0)
        self.connection, _ = self.listening.accept()
        self.connection.setblocking(False)

    def heard(self) -> list[FromAgent]:
        """What was said since the last call."""
        found = []
        while True:
            try:
                content = self.connection.recv(1024)
            except BlockingIOError:
                return found
            found.append(msgspec.msgpack.decode(content, type=FromAgent))

    def close(self) -> None:
        self.connection.close()
        self.listening.close()
        self.agent._close()


@pytest.fixture
def sensors(tmp_path: Path) -> Iterator[Sensors]:
    sensors = Sensors(tmp_path / "sessions.sock")
    yield sensors
    sensors.close()


def test_an_agent_of_a_session_that_nobody_uses_says_now_and_then_that_it_lives(sensors: Sensors):
    agent = sensors.agent
    assert sensors.heard() == [BEGINS]
    assert agent.next_s == SESSION_LIVES_S
    said_s = []
    for now_s in range(int(4 * SESSION_LIVES_S)):
        agent.tell_alive(float(now_s))
        said_s += [float(now_s) for each in sensors.heard() if each == SessionLives()]
    assert said_s == [SESSION_LIVES_S, 2 * SESSION_LIVES_S, 3 * SESSION_LIVES_S]


def test_who_has_said_something_else_need_not(sensors: Sensors):
    agent = sensors.agent
    agent.tell_used(SESSION_LIVES_S - 1.0)
    agent.tell_alive(SESSION_LIVES_S)
    assert sensors.heard() == [BEGINS, SessionUsed()]
    assert agent.next_s == 2 * SESSION_LIVES_S - 1.0


def test_a_process_that_does_not_read_does_not_keep_the_agent_busy(sensors: Sensors):
    agent, now_s = sensors.agent, 0.0
    for _ in range(10_000):
        now_s = agent.next_s
        agent.tell_alive(now_s)
    assert agent.next_s == now_s + SESSION_LIVES_S
    assert SessionLives() in sensors.heard()


def test_where_nobody_listens_any_more_it_connects_anew(sensors: Sensors):
    sensors.connection.close()
    sensors.agent.tell_alive(SESSION_LIVES_S)
    assert sensors.agent.fd is None
    sensors.agent.connect(SESSION_LIVES_S)
    sensors.connection, _ = sensors.listening.accept()
    assert sensors.connection.recv(1024) == msgspec.msgpack.encode(BEGINS)
    assert sensors.agent.next_s == 2 * SESSION_LIVES_S
