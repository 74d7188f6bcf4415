"""A key in an X session suspends what runs on a machine, also while its daemon stands still."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from iriai.model.owner import OwnerWord
from iriai.wire.owner import AskOwner, OwnerReport
from tests.endtoend.installation import MARK, Installation, installed
from tests.endtoend.test_owner import CONFIGURATION, QUIET_S, begun, says, stands, states
from tests.launcher.owner.xserver import XServer
from tests.support.waiting import until


@pytest.fixture
def desk(person) -> Iterator[Installation]:
    with installed(person, CONFIGURATION) as installation:
        yield installation


@pytest.fixture
def xserver() -> Iterator[XServer]:
    server = XServer()
    yield server
    server.close()


@pytest.fixture
def session(desk: Installation, xserver: XServer) -> Iterator[XServer]:
    """A session in which an agent runs, as whoever the machine belongs to."""
    words = [sys.executable, "-P", "-m", "iriai.session", str(desk.state)]
    environment = xserver.environment() | {MARK: str(desk.directory)}
    agent = subprocess.Popen(words, env=environment, stderr=subprocess.DEVNULL)
    until(lambda: "agents of" in note(desk), "the agent")
    yield xserver
    agent.terminate()
    agent.wait()


def report(desk: Installation) -> OwnerReport:
    with desk.client() as client:
        return client.ask(AskOwner())


def note(desk: Installation) -> str:
    return next(each.note for each in report(desk).sensors if each.kind == "session")


def test_a_key_in_a_session_suspends_what_runs_and_the_agent_has_a_name(desk, session):
    place = begun(desk)
    until(lambda: states(desk) == ["runs"], "nobody to be there", wait_s=QUIET_S)
    session.press()
    until(lambda: states(desk) == ["suspended"], "the task to give way")
    assert "(x11); the last sign was of" in note(desk)
    until(lambda: states(desk) == ["runs"], "nobody to be there", wait_s=QUIET_S)
    assert place.read_text() == "begun\n"


def test_it_does_so_while_the_daemon_stands_still(desk, session):
    place = begun(desk)
    until(lambda: states(desk) == ["runs"], "nobody to be there", wait_s=QUIET_S)
    daemon = desk.pid("daemon")
    os.kill(daemon, signal.SIGSTOP)
    try:
        session.press()
        until(lambda: stands(place), "the task to give way")
    finally:
        os.kill(daemon, signal.SIGCONT)
    until(lambda: not stands(place), "the task to go on", wait_s=QUIET_S)


def test_the_owner_s_word_comes_before_keys_in_a_session(desk, session):
    says(desk, OwnerWord.AWAY)
    place = begun(desk)
    session.press()
    assert not stands(place)
