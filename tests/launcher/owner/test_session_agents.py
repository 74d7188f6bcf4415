"""The sensor of graphical sessions, and agents that lie to it."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from math import inf
from pathlib import Path

import msgspec
import pytest

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
from iriai.launcher.owner.session_agents import (
    ACCEPTS_MAX,
    AGENTS_MAX,
    LIVES_MAX,
    NAMED_MAX,
    OF_USER_MAX,
    PACKETS_MAX,
    RETRY_S,
    SILENT_MAX,
    SessionSensor,
)
from iriai.launcher.owner.session_users import NamedUsers, SessionUsers, named_users
from iriai.system.passwd_cache import PeerCredentials
from tests.launcher.owner.test_sensors import Asked
from tests.launcher.owner.xserver import XServer
from tests.support.waiting import WAIT_S, until

BEGINS = msgspec.msgpack.encode(SessionBegins(SESSION_VERSION, "x11"))
USED = msgspec.msgpack.encode(SessionUsed())
LIVES = msgspec.msgpack.encode(SessionLives())
OWN = NamedUsers({os.geteuid(): "ann"})
NOBODY_S_TASKS = 1 << 30
"""No launcher has this number."""


class Agent:
    """One end of a connection, which says what it likes."""

    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(10.0)
        self.socket.connect(str(path))

    def say(self, *packets: bytes) -> None:
        for each in packets:
            self.socket.send(each)

    def reason(self) -> str:
        """Why it was refused."""
        with suppress(ConnectionResetError):  # what it said was not read
            self.socket.recv(1024, socket.MSG_PEEK)
        reason = msgspec.msgpack.decode(self.socket.recv(1024), type=SessionRefused).reason
        assert self.socket.recv(1024) == b""
        return reason


class Sessions:
    """A sensor, and the agents that connect to it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.agents: list[Agent] = []
        self.sensors: list[SessionSensor] = []

    def watch(self, users: NamedUsers = OWN, launcher: int = NOBODY_S_TASKS) -> Asked:
        logins = str(self.path.with_name("users"))
        sensor = SessionSensor(str(self.path), SessionUsers(users, launcher, logins))
        self.sensors.append(sensor)
        self.asked = Asked(sensor)
        return self.asked

    def agent(self, *packets: bytes) -> Agent:
        self.agents.append(Agent(self.path))
        self.agents[-1].say(*packets)
        return self.agents[-1]

    def log_in(self, name: str, state: str = "active", sessions: str = "3") -> None:
        """As logind writes it."""
        folder = self.path.with_name("users")
        folder.mkdir(exist_ok=True)
        words = f"# private\nNAME={name}\nSTATE={state}\nSESSIONS={sessions}\nSEATS=\n"
        (folder / str(os.geteuid())).write_text(words)

    def note(self) -> str:
        return self.asked.sensor.state().note

    def close(self) -> None:
        for agent in self.agents:
            agent.socket.close()
        for sensor in self.sensors:
            sensor.close()

    def works(self) -> bool:
        return self.asked.sensor.state().works

    def look(self) -> int:
        """Let the sensor look once for agents of which nothing is heard; return the signs."""
        self.asked.now_s += SESSION_LIVES_S
        return self.asked.signs()


@pytest.fixture
def sessions(tmp_path: Path) -> Iterator[Sessions]:
    sessions = Sessions(tmp_path / "sessions.sock")
    yield sessions
    sessions.close()


def test_it_works_while_an_agent_is_connected(sessions: Sessions):
    asked = sessions.watch()
    assert (sessions.works(), "iriai session-agent" in sessions.note()) == (False, True)
    agent = sessions.agent(BEGINS)
    assert asked.signs() == 0
    assert (sessions.works(), sessions.note()) == (True, "agents of ann (x11)")
    agent.say(USED)
    assert asked.signs() == 1
    assert sessions.note() == "agents of ann (x11); the last sign was of ann"
    agent.socket.close()
    assert asked.signs() == 0
    assert not sessions.works()


def test_many_signs_at_once_are_one(sessions: Sessions):
    asked = sessions.watch()
    sessions.agent(BEGINS, *[USED] * (PACKETS_MAX - 1))
    assert asked.signs() == 1


def test_another_process_takes_the_place_of_the_one_before(sessions: Sessions):
    before = sessions.watch().sensor
    asked = sessions.watch()
    before.close()
    sessions.agent(BEGINS, USED)
    assert asked.signs() == 1
    asked.sensor.close()
    assert not sessions.path.exists()


def test_a_place_that_is_not_there_yet_is_tried_again(tmp_path: Path):
    sessions = Sessions(tmp_path / "later" / "sessions.sock")
    asked = sessions.watch()
    assert "No such file" in sessions.note()
    sessions.path.parent.mkdir()
    asked.now_s += RETRY_S
    asked.signs()
    sessions.agent(BEGINS)
    asked.signs()
    assert sessions.works()
    sessions.close()


def test_a_path_that_is_too_long_says_so(tmp_path: Path):
    sessions = Sessions(tmp_path / ("x" * 120) / "sessions.sock")
    sessions.watch()
    assert "too long" in sessions.note()


# --- agents of which nothing is heard ------------------------------------------------------------


def test_an_agent_that_says_nothing_counts_no_more_until_it_says_something(sessions: Sessions):
    asked = sessions.watch()
    agent = sessions.agent(BEGINS)
    asked.signs()
    worked = []
    for _ in range(SILENT_MAX):
        worked.append(sessions.works())
        assert sessions.look() == 0
    assert (worked, sessions.works()) == ([True] * SILENT_MAX, False)
    assert "agents of ann (x11) say nothing any more" in sessions.note()
    agent.say(LIVES)
    assert (asked.signs(), sessions.works()) == (0, True)
    for _ in range(SILENT_MAX):
        sessions.look()
    agent.say(USED)
    assert (asked.signs(), sessions.works()) == (1, True)


@pytest.mark.parametrize("word", [LIVES, USED], ids=["lives", "used"])
def test_an_agent_that_says_something_at_times_counts(sessions: Sessions, word: bytes):
    asked = sessions.watch()
    agent = sessions.agent(BEGINS)
    asked.signs()
    for _ in range(10 * SILENT_MAX):
        agent.say(word)
        sessions.look()
        assert sessions.works()


def test_another_agent_that_lives_is_enough_and_the_silent_one_is_named(sessions: Sessions):
    asked = sessions.watch()
    sessions.agent(msgspec.msgpack.encode(SessionBegins(SESSION_VERSION, DisplayKind.WAYLAND)))
    other = sessions.agent(BEGINS)
    asked.signs()
    for _ in range(SILENT_MAX):
        other.say(LIVES)
        sessions.look()
    note = "agents of ann (x11); those of ann (wayland) say nothing any more"
    assert (sessions.works(), sessions.note()) == (True, note)


def test_a_machine_that_slept_for_long_has_missed_one_look(sessions: Sessions):
    asked = sessions.watch()
    sessions.agent(BEGINS)
    asked.signs()
    asked.now_s += 1e6
    asked.signs()
    assert sessions.works()


def test_an_agent_may_say_that_it_lives_again_after_each_look(sessions: Sessions):
    asked = sessions.watch()
    agent = sessions.agent(BEGINS)
    for _ in range(3):
        agent.say(*[LIVES] * (LIVES_MAX - 1))
        asked.signs()
        sessions.look()
        assert sessions.works()


def test_nobody_looks_where_there_are_no_agents(sessions: Sessions):
    asked = sessions.watch()
    agent = sessions.agent(BEGINS)
    asked.signs()
    assert asked.sensor.due_s() < inf
    agent.socket.close()
    asked.signs()
    assert asked.sensor.due_s() == inf


LIVES_S = 0.3
"""How often the real agent of the next test says that it lives."""
QUIET_AGENT = f"""
import sys
from iriai.launcher.contract import session_messages
session_messages.SESSION_LIVES_S = {LIVES_S}
from iriai.session.__main__ import main
sys.exit(main(sys.argv[1:]))
"""


def test_a_real_agent_that_is_stopped_counts_no_more_until_it_goes_on(sessions: Sessions):
    asked, xserver = sessions.watch(), XServer()
    sensor, folder = asked.sensor, str(sessions.path.parent)
    words = [sys.executable, "-P", "-c", QUIET_AGENT, folder]
    environment = xserver.environment()
    with subprocess.Popen(words, stderr=subprocess.DEVNULL, env=environment) as agent:
        try:
            until(lambda: asked.signs() >= 0 and sessions.works(), "the agent")
            quiet = 0
            while quiet < 2 * SILENT_MAX:  # nobody is there, and it lives
                select.select(sensor.descriptors(asked.now_s), [], [], WAIT_S)
                quiet = 0 if sessions.look() else quiet + 1
                assert sessions.works()
            agent.send_signal(signal.SIGSTOP)
            assert os.WIFSTOPPED(os.waitpid(agent.pid, os.WUNTRACED)[1])
            asked.signs()
            for _ in range(SILENT_MAX):
                sessions.look()
            assert not sessions.works()
            agent.send_signal(signal.SIGCONT)
            until(lambda: asked.signs() >= 0 and sessions.works(), "its next word")
            xserver.press()
            until(asked.signs, "the key")
        finally:
            agent.kill()
            xserver.close()


# --- who is heard --------------------------------------------------------------------------------


def test_who_has_a_session_is_heard_and_others_are_not(sessions: Sessions):
    asked = sessions.watch(NamedUsers({}))
    stranger = sessions.agent(BEGINS, USED)
    assert asked.signs() == 0
    assert "no login session" in stranger.reason()
    for state, its in (("lingering", ""), ("closing", "3"), ("active", "")):
        sessions.log_in("ann", state, its)
        sessions.agent(BEGINS, USED)
        assert asked.signs() == 0
    sessions.log_in("ann", "online")
    sessions.agent(BEGINS, USED)
    assert (asked.signs(), "ann (x11)" in sessions.note()) == (1, True)


def test_everybody_may_be_named(sessions: Sessions):
    asked = sessions.watch(named_users(("all",))._replace(names={}))
    sessions.agent(BEGINS, USED)
    assert (asked.signs(), f"user id {os.geteuid()}" in sessions.note()) == (1, True)


def test_the_machine_s_own_user_and_those_it_names_are_heard():
    names = named_users(("daemon", "no-such-user")).names
    assert {0, os.geteuid()} <= names.keys()
    assert "daemon" in names.values()


def test_a_task_that_says_that_it_is_the_owner_is_not_heard(sessions: Sessions):
    asked = sessions.watch(launcher=os.getpid())
    program = (
        "import socket, sys\n"
        "s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
        "s.connect(sys.argv[1])\n"
        "sys.exit('do not count' not in s.recv(1024).decode('latin-1'))"
    )
    words = [sys.executable, "-c", program, str(sessions.path)]
    with subprocess.Popen(words) as task:
        while task.poll() is None:
            assert asked.signs() == 0
    assert task.returncode == 0


def test_a_process_that_has_ended_and_one_too_deep_may_be_tasks(monkeypatch):
    users = SessionUsers(OWN, NOBODY_S_TASKS)
    monkeypatch.setattr("iriai.launcher.owner.session_users.DEPTH_MAX", 1)
    for pid in (1 << 22, os.getpid()):
        with pytest.raises(Exception, match="do not count"):
            users.name_of(PeerCredentials(pid, os.geteuid(), 0))
    assert users.name_of(PeerCredentials(0, os.geteuid(), 0)) == "ann"


# --- what they may say ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "packets",
    [
        [USED],
        [BEGINS, BEGINS],
        [LIVES],
        [BEGINS, *[LIVES] * (LIVES_MAX + 1)],
        [msgspec.msgpack.encode([1, 1, "x11"])],
        [msgspec.msgpack.encode([1, SESSION_VERSION + 1, "x11"])],
        [msgspec.msgpack.encode([1, -1, "x11"])],
        [msgspec.msgpack.encode([1, SESSION_VERSION, "keyboard"])],
        [msgspec.msgpack.encode([2, "secret"]), USED],
        [msgspec.msgpack.encode([3, "no"])],
        [b"\xc1"],
        [b"\x91" * PACKET_BYTES_MAX],
        [b"\xff" * 100_000],
        [msgspec.msgpack.encode([1, SESSION_VERSION, "x11", "x" * PACKET_BYTES_MAX])],
    ],
    ids=lambda packets: packets[0][:20].hex(),
)
def test_who_says_what_it_may_not_is_told_and_left(sessions: Sessions, packets: list[bytes]):
    asked = sessions.watch()
    agent = sessions.agent(*packets)
    assert asked.signs() == 0
    assert "not what an agent may say" in agent.reason()
    assert not sessions.works()
    other = sessions.agent(BEGINS, USED)
    assert (asked.signs(), other.socket.fileno() >= 0) == (1, True)


def test_an_empty_packet_is_an_end(sessions: Sessions):
    asked = sessions.watch()
    sessions.agent(BEGINS, b"")
    assert asked.signs() == 0
    assert not sessions.works()


def test_one_user_has_so_many_agents_at_most(sessions: Sessions):
    asked = sessions.watch()
    for _ in range(OF_USER_MAX):
        sessions.agent(BEGINS)
        asked.signs()
    more = sessions.agent(BEGINS)
    assert asked.signs() == 0
    assert "too many" in more.reason()
    assert f"and {OF_USER_MAX - NAMED_MAX} more" in sessions.note()


def test_all_users_together_have_so_many_at_most(sessions: Sessions, monkeypatch):
    monkeypatch.setattr("iriai.launcher.owner.session_agents.AGENTS_MAX", 2)
    assert AGENTS_MAX > 2 * OF_USER_MAX
    asked = sessions.watch()
    agents = [sessions.agent(BEGINS) for _ in range(3)]
    asked.signs()
    assert "too many" in agents[2].reason()


def test_who_connects_all_the_time_is_let_in_at_a_bounded_rate(sessions: Sessions):
    asked = sessions.watch(NamedUsers({}))
    for _ in range(3 * ACCEPTS_MAX):
        sessions.agent()
    sensor = asked.sensor
    sensor.take(sensor.descriptors(asked.now_s), asked.now_s)
    assert sensor.descriptors(asked.now_s) == []
    assert 0.0 < sensor.due_s() - asked.now_s < 1.0


def test_what_an_agent_keeps_sending_is_read_in_pieces(sessions: Sessions):
    asked = sessions.watch()
    sessions.agent(BEGINS, *[USED] * (3 * PACKETS_MAX))
    asked.signs()
    sensor = asked.sensor
    for _ in range(3):
        sensor.take(sensor.descriptors(asked.now_s), asked.now_s)
    assert sessions.works()
