"""Input of a job on its way to the daemon: what was not taken is sent again, for how long."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from iriai.client import Client
from iriai.client import input as module
from iriai.client.input import GIVE_UP_S, InputSender
from iriai.model.problem import Refused, Unreachable
from iriai.wire.requests import NOT_STARTED, TOO_MUCH_INPUT, InputWritten, WriteInput
from tests.client.double import Asking, HangUp, double
from tests.support.waiting import WAIT_S


class Clock:
    """Time passes only when a test, or a pause of the sender, lets it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 0.0
        times = SimpleNamespace(monotonic=lambda: self.now_s, sleep=self.let_pass)
        monkeypatch.setattr(module, "time", times)

    def let_pass(self, seconds: float) -> None:
        self.now_s += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


class Task:
    """A task that reads all that comes, on a daemon which at first fails as a test tells it."""

    def __init__(self, *failures: Callable[[], None]) -> None:
        self.got = b""
        self._failures = list(failures)

    def answer(self, asking: Asking) -> InputWritten:
        if self._failures:
            self._failures.pop(0)()
        asked = asking.body
        assert isinstance(asked, WriteInput)
        if asked.offset == len(self.got):
            self.got += asked.content
        return InputWritten(len(self.got), is_open=not asked.is_end)


def send(connect: Callable[[], Client], content: bytes) -> None:
    """Send `content`, all of it, or as much as can be sent."""
    source, sink = os.pipe()
    os.write(sink, content)
    os.close(sink)
    sender = InputSender(connect, WriteInput("ume-1", 0, b""), source, is_terminal=False)
    sender.start()
    sender.join(WAIT_S)
    os.close(source)
    assert not sender.is_alive()


def test_a_connection_that_is_lost_late_in_a_session_is_made_again(state: Path, clock: Clock):
    """The time to give up counted from the beginning: after a minute one loss was the end."""

    def lost_late() -> None:
        clock.let_pass(GIVE_UP_S + 1)
        raise HangUp

    task = Task(lost_late)
    with double(state, task.answer) as server:
        send(lambda: Client.connect(state), b"typed")
        assert server.connections == 2
    assert task.got == b"typed"


@pytest.mark.parametrize("code", [NOT_STARTED, TOO_MUCH_INPUT])
def test_what_a_task_cannot_take_yet_is_sent_again(state: Path, clock: Clock, code: str):
    def refuse() -> None:
        raise Refused(code, "later")

    task = Task(refuse, refuse)
    with double(state, task.answer):
        send(lambda: Client.connect(state), b"typed")
    assert task.got == b"typed"


def test_a_refusal_for_good_ends_it(state: Path, clock: Clock):
    def refuse() -> None:
        raise Refused("no-input", "it has finished")

    task = Task(refuse)
    with double(state, task.answer) as server:
        send(lambda: Client.connect(state), b"typed")
        assert server.connections == 1
    assert (task.got, clock.now_s) == (b"", 0.0)


def test_a_daemon_that_stays_offline_is_given_up(clock: Clock):
    def connect() -> Client:
        raise Unreachable("no-daemon", "nobody listens")

    send(connect, b"typed")
    assert clock.now_s == pytest.approx(GIVE_UP_S, abs=1.0)
