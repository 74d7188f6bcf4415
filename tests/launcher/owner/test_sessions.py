"""Keys in an X session suspend what runs: a real X server, agent, sensor process and launcher."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from iriai.model.owner import SignKind
from iriai.system.clock import steady_s
from tests.launcher.harness import Machine, until
from tests.launcher.owner.used import SIGN_PAUSE_S, UsedLab
from tests.launcher.owner.xserver import XServer
from tests.launcher.tasks.test_freezing import count

SESSION = SignKind.SESSION
STANDS_S = 0.1
"""What does not count for so long stands."""
BOUND_S = 0.1
"""From a key until the task stands (docs/spec/016, section 7)."""


@pytest.fixture(scope="module")
def xserver() -> Iterator[XServer]:
    server = XServer()
    yield server
    server.close()


class Session:
    """A graphical session with an agent for one launcher."""

    def __init__(self, xserver: XServer, machine: Machine) -> None:
        self.xserver = xserver
        self.log = machine.directory / "agent.log"
        words = [sys.executable, "-P", "-m", "iriai.session", str(machine.state)]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stderr=log, env=xserver.environment()
            )

    def close(self) -> None:
        self.process.terminate()
        self.process.wait()


@pytest.fixture
def session(used: UsedLab, xserver: XServer) -> Iterator[Session]:
    session = Session(xserver, used.machine)
    yield session
    session.close()


def is_watched(used: UsedLab) -> bool:
    used.machine.wait_until_read(used.link)
    return any(each.kind is SESSION and each.works for each in used.seen.sensors)


def rest(used: UsedLab) -> None:
    """Let what was seen be over."""
    time.sleep(2 * SIGN_PAUSE_S)
    used.machine.wait_until_read(used.link)
    used.release()
    used.runs()


def stands_after_s(used: UsedLab, session: Session) -> float:
    """How long after a key the task counts no more. Nobody reads what the launcher tells."""
    begun_s = last_s = steady_s()
    number = count(used)
    session.xserver.press()
    while steady_s() < last_s + STANDS_S:
        if (now := count(used)) != number:
            number, last_s = now, steady_s()
        time.sleep(0.001)
        assert last_s < begun_s + 10.0, "the task goes on"
    return last_s - begun_s


def test_a_key_in_a_session_suspends_within_a_tenth_of_a_second(used: UsedLab, session: Session):
    used.begin()
    used.watch()
    until(lambda: is_watched(used), "the agent")
    needed_s = []
    for _ in range(5):  # others load this machine
        rest(used)
        needed_s.append(stands_after_s(used, session))
        if needed_s[-1] <= BOUND_S:
            break
    assert min(needed_s) <= BOUND_S, needed_s
    used.await_sign(SESSION)


def test_who_goes_on_typing_goes_on_being_seen_and_who_stops_does_not(
    used: UsedLab, session: Session
):
    used.watch()
    until(lambda: is_watched(used), "the agent")
    before = used.seen.signs
    end_s = steady_s() + 2.5
    while steady_s() < end_s:
        session.xserver.press()
    used.await_sign(SESSION, before + 1)
    time.sleep(2 * SIGN_PAUSE_S)
    used.machine.wait_until_read(used.link)
    used.nothing_is_told()


def test_an_agent_that_ends_is_a_sensor_less_and_comes_back(plain_used: UsedLab, xserver: XServer):
    used = plain_used
    used.watch()
    session = Session(xserver, used.machine)
    until(lambda: is_watched(used), "the agent")
    session.process.kill()
    until(lambda: not is_watched(used), "its end")
    again = Session(xserver, used.machine)
    until(lambda: is_watched(used), "another agent")
    session.close()
    again.close()
    assert "watches this session by x11" in again.log.read_text()


def test_an_agent_without_a_display_says_so(tmp_path: Path):
    words = [sys.executable, "-P", "-m", "iriai.session", str(tmp_path)]
    for display, why in ((None, "DISPLAY is not set"), (":987", "the X server :987")):
        environment = {k: v for k, v in os.environ.items() if k != "DISPLAY"}
        environment |= {} if display is None else {"DISPLAY": display}
        done = subprocess.run(words, check=False, env=environment, capture_output=True, text=True)
        assert (done.returncode, why in done.stderr) == (3, True)


def test_an_agent_ends_with_its_session(plain_used: UsedLab):
    xserver = XServer()
    session = Session(xserver, plain_used.machine)
    until(lambda: "watches this session" in session.log.read_text(), "the agent")
    xserver.close()
    assert session.process.wait(30) == 0
    assert "the session is over" in session.log.read_text()
