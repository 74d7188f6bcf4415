"""The input of a job whose client is gone comes to its end, whenever the job runs."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from iriai.daemon.requests.jobs.streams import AWAY_S, LOOK_S, StreamHandlers
from iriai.model.submission import Interaction
from iriai.protocol.messages.scheduling import Begun
from iriai.protocol.messages.streams import Input
from tests.home.lone_home import LoneHome, match
from tests.support.told import HOME, WALL_S, attempt


class Scene:
    """A home with one job that takes input, and the handlers; time passes as a test says."""

    def __init__(self, *, is_local: bool = True) -> None:
        self.now_s = 0.0
        self.ended: list[tuple[float, str, Input]] = []
        """When a machine was told that the client is gone."""
        self._alarms: list[tuple[float, Callable[[], None]]] = []
        self.home = LoneHome()
        engine = SimpleNamespace(
            machine=SimpleNamespace(home=self.home.home),
            steady_s=lambda: self.now_s,
            later=self._later,
        )
        streams = SimpleNamespace(abandon=lambda *told: self.ended.append((self.now_s, *told)))
        self.handlers = StreamHandlers(engine, None, streams, 10)  # type: ignore[arg-type]
        self.client = SimpleNamespace(is_local=is_local, on_close=[])
        self.home.submit(interaction=Interaction.STREAM, takes_input=True)
        self.job = self.home.home.jobs[1]

    def add(self) -> None:
        """The job was just submitted by the client."""
        self.handlers.add(1, self.job.spec.user, self.client)  # type: ignore[arg-type]

    def leave(self) -> None:
        """The client's connection ends."""
        for action in self.client.on_close:
            action()

    def let_pass(self, seconds: float) -> None:
        """Let time pass."""
        until_s = self.now_s + seconds
        while due := [each for each in self._alarms if each[0] <= until_s]:
            self._alarms.remove(due[0])
            self.now_s, action = due[0]
            action()
        self.now_s = until_s

    def _later(self, delay_s: float, action: Callable[[], None]) -> None:
        self._alarms.append((self.now_s + delay_s, action))


ENDED = HOME, Input(attempt(), 0, b"", is_abandoned=True)


def test_a_job_that_starts_after_its_client_is_gone_gets_an_end_of_input():
    """It was told once, when there was no task to tell it to."""
    scene = Scene()
    scene.add()
    scene.home.tell(match())
    scene.leave()
    scene.let_pass(AWAY_S)
    assert scene.ended == []
    scene.home.tell(Begun(attempt(), HOME, WALL_S))
    scene.let_pass(LOOK_S)
    assert [told for _, *told in scene.ended] == [[*ENDED]]


def test_the_end_is_told_again_since_the_link_may_be_dead():
    scene = Scene()
    scene.add()
    scene.home.start()
    scene.leave()
    assert scene.ended == [(0.0, *ENDED)]
    scene.let_pass(2 * AWAY_S)
    assert scene.ended == [(time_s, *ENDED) for time_s in (0.0, AWAY_S, 2 * AWAY_S)]
    scene.handlers.finished(1)
    scene.let_pass(10 * AWAY_S)
    assert len(scene.ended) == 3


@pytest.mark.parametrize("why", ["its connection was lost", "the daemon was restarted"])
def test_a_client_may_come_back_for_a_while(why: str):
    scene = Scene(is_local=False)
    scene.home.start()
    if why == "the daemon was restarted":
        scene.handlers.restore(1, scene.job)
    else:
        scene.add()
        scene.leave()
    scene.let_pass(AWAY_S - 1)
    assert scene.ended == []
    scene.let_pass(1)
    assert scene.ended == [(AWAY_S, *ENDED)]
