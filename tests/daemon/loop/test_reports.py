"""The end of a task waits for more news only in a stream of turns, and if nobody waits for it."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from iriai.daemon.loop.engine import STREAM_TURNS, Engine
from iriai.daemon.loop.routes import Routes
from iriai.machine.outbox import Turn
from iriai.model.ids import AttemptId
from iriai.model.state import EndCause
from iriai.model.usage import Usage
from iriai.protocol.messages.effects import AttemptExited, LauncherAttached


class RestingMachine:
    """A machine whose cores do nothing."""

    def __init__(self, *, has_queue: bool) -> None:
        self.has_queue = has_queue

    def handle(self, _event: object, _now: object) -> None:
        """Do nothing."""

    def end_turn(self, _now: object) -> Turn:
        return Turn([], False, [])


def exited(home: str) -> AttemptExited:
    attempt = AttemptId(home, 1, 0, 1)
    return AttemptExited(attempt, EndCause.COMPLETED, 0, None, Usage(), 0.0, 0.1, 0.1, "")


def is_held(
    event: object, *, turns: int, clients_waiting: int = 0, has_queue: bool = False
) -> bool:
    """Whether `event` waits after so many turns in a row."""

    async def play() -> bool:
        machine = RestingMachine(has_queue=has_queue)
        engine = Engine(machine, SimpleNamespace(), SimpleNamespace(), "ume", Routes())
        engine.clients_waiting = clients_waiting
        for _ in range(turns):
            engine.turn()
        engine.report(event)
        return not engine._is_scheduled

    return asyncio.run(play())


STREAM = 2 * STREAM_TURNS


def test_an_end_that_nobody_waits_for_comes_with_the_next_news():
    assert is_held(exited("ume"), turns=STREAM)


@pytest.mark.parametrize(
    "awaited", [{"clients_waiting": 1}, {"has_queue": True}], ids=["a client", "a task"]
)
def test_an_end_that_somebody_waits_for_does_not_wait(awaited):
    assert not is_held(exited("ume"), turns=STREAM, **awaited)


def test_an_end_of_another_home_s_task_does_not_wait():
    assert not is_held(exited("ran"), turns=STREAM)


def test_an_end_after_a_silence_does_not_wait():
    assert not is_held(exited("ume"), turns=1)


def test_other_news_of_the_launcher_does_not_wait():
    assert not is_held(LauncherAttached(()), turns=STREAM)
