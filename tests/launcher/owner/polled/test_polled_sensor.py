"""How often a sensor of a condition looks, and what it tells."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from iriai.launcher.owner.polled import polled_sensor
from iriai.launcher.owner.polled.polled_sensor import BUSY_S, IDLE_S, REST_S, Threshold
from iriai.launcher.owner.polled.reading import CannotLook
from iriai.model.owner import SignKind
from tests.launcher.owner.polled.trees import Watched


class Lamp:
    """A condition that the test sets."""

    kind = SignKind.BATTERY
    note = "a lamp"

    def __init__(self) -> None:
        self.holds = self.is_lit = False
        self.fails: Exception | None = None
        self.pieces = 1

    def look(self, now_s: float) -> Iterator[None]:
        for _ in range(self.pieces):
            yield
        if self.fails is not None:
            raise self.fails
        self.holds = self.is_lit

    def close(self) -> None:
        pass


@pytest.fixture
def lamp() -> Lamp:
    return Lamp()


def test_it_looks_once_a_second_while_tasks_run_and_seldom_else(lamp: Lamp):
    busy, idle = Watched(lamp), Watched(lamp, is_busy=False)
    busy.signs(60.0)
    idle.signs(60.0)
    assert (busy.looks, idle.looks) == (60 / BUSY_S, 60 / IDLE_S)


def test_a_condition_gives_a_sign_when_it_begins_and_while_it_lasts(lamp: Lamp):
    watched = Watched(lamp)
    watched.pace.repeat_s = 5.0
    assert watched.signs(20.0) == 0
    lamp.is_lit = True
    assert watched.signs(20.0) == 4
    lamp.is_lit = False
    assert watched.signs(20.0) == 0
    lamp.is_lit = True
    assert watched.signs(1.0) == 1
    for is_lit in (False, True):  # it ends and begins again before it would be told again
        lamp.is_lit = is_lit
        assert watched.signs(1.0) == is_lit


def test_on_an_idle_machine_it_is_repeated_as_often_as_use_needs_it(lamp: Lamp):
    watched = Watched(lamp, is_busy=False)
    watched.pace.repeat_s = 1.0
    lamp.is_lit = True
    assert watched.signs(30.0) == 30


def test_when_tasks_begin_it_looks_within_a_second(lamp: Lamp):
    watched = Watched(lamp, is_busy=False)
    watched.signs(5.0)
    lamp.is_lit = watched.pace.is_busy = True
    assert watched.signs(1.0) == 1


@pytest.mark.parametrize("why", [CannotLook("it is gone"), OSError(19, "it is gone", "/sys/x")])
def test_what_cannot_be_seen_holds_no_longer(lamp: Lamp, why: Exception):
    watched = Watched(lamp)
    lamp.is_lit = True
    assert watched.holds
    lamp.fails = why
    assert watched.signs(60.0) == 0
    assert (watched.state.works, watched.state.holds) == (False, False)
    assert "it is gone" in watched.state.note
    lamp.fails = None
    assert watched.signs() == 1
    assert watched.state.works


def test_a_long_look_lets_keys_be_noticed_in_between(lamp: Lamp, monkeypatch):
    monkeypatch.setattr(polled_sensor, "WORK_S", -1.0)
    lamp.pieces, lamp.is_lit = 5, True
    watched = Watched(lamp)
    times = 0
    while not watched.sensor.take((), watched.now_s):
        assert watched.sensor.due_s() == watched.now_s + REST_S
        watched.now_s = watched.sensor.due_s()
        times += 1
    assert times == 5


def test_a_number_near_its_bound_does_not_toggle():
    threshold = Threshold(10.0, 8.0)
    numbers = (9.9, 10.0, 10.1, 9.0, 8.0, 7.9, 9.0, 10.0, 11.0)
    assert list(map(threshold.take, numbers)) == [False] * 2 + [True] * 3 + [False] * 3 + [True]
