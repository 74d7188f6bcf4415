"""Connections that come faster than their user may, and those that are turned away."""

from __future__ import annotations

import itertools
import logging
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from iriai.config.limits import LimitsSection
from iriai.daemon.server.request_scheduling import Arrivals
from iriai.identity.users.permissions import Caller
from iriai.policy.service.allowances import ConnectionLimits
from iriai.system.frames import FrameReader
from iriai.system.passwd_cache import Person
from iriai.wire.codec import decode_reply

LIMITS = LimitsSection(connections_per_user=12, connects_per_s=10, connects_burst=3)


class Scene:
    """A listening socket; whoever connects is `user`, and time passes when told."""

    def __init__(self, directory: Path) -> None:
        self.user, self.is_operator = "eve", False
        self.now_s = 0.0
        self.alarms = []
        self.served = []
        self.clients = []
        self.room = ConnectionLimits(LIMITS)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(directory / "socket"))
        self.listener.listen(64)
        self.listener.setblocking(False)
        self.arrivals = Arrivals(
            self,
            lambda _: self.caller(),
            self.room,
            LIMITS,
            lambda *who: self.served.append(who),
            lambda: next(self.clock_s),
        )
        self.clock_s = itertools.count(0.0, 0.002)

    def caller(self) -> Caller:
        return Caller(Person(1000, self.user, "lab", ("lab",)), self.is_operator)

    def later(self, delay_s, action) -> None:
        self.alarms.append((self.now_s + delay_s, action))

    def steady_s(self) -> float:
        return self.now_s

    def connect(self, count: int) -> None:
        for _ in range(count):
            client = socket.socket(socket.AF_UNIX)
            client.connect(self.listener.getsockname())
            self.clients.append(client)
        self.rest_s = self.arrivals.accept(self.listener)

    def sleep(self, seconds: float) -> None:
        end_s = self.now_s + seconds
        while due := [each for each in self.alarms if each[0] <= end_s]:
            self.alarms.remove(due[0])
            self.now_s = due[0][0]
            due[0][1]()
        self.now_s = end_s

    def last_word(self):
        [frame] = FrameReader().feed(self.clients[-1].recv(1 << 16))
        return decode_reply(frame)

    def close(self) -> None:
        self.arrivals.close()
        for each in (self.listener, *self.clients, *(one for one, _ in self.served)):
            each.close()


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    found = Scene(tmp_path)
    yield found
    found.close()


def test_who_comes_too_fast_waits_and_the_others_do_not(scene: Scene):
    scene.connect(6)
    assert len(scene.served) == 3
    assert scene.arrivals.slowed == {"eve": 3}
    scene.user = "ann"
    scene.connect(1)
    assert len(scene.served) == 4
    scene.sleep(0.35)
    assert len(scene.served) == 7


def test_an_operator_does_not_wait(scene: Scene):
    scene.is_operator = True
    scene.connect(20)
    assert len(scene.served) == 20


def test_who_waits_is_counted_and_the_next_is_told_why_not(
    scene: Scene, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.INFO)
    scene.connect(12 + 15)
    assert scene.last_word().code == "too-many-connections"
    assert scene.arrivals.turned_away == scene.room.per_user.refusals == {"eve": 15}
    assert len(caplog.records) == 2, "the first and the tenth are logged"
    scene.sleep(5.0)
    assert len(scene.served) == 12


def test_nobody_is_taken_for_a_while_where_somebody_was_turned_away(scene: Scene):
    scene.connect(12)
    assert scene.rest_s == 0.0
    scene.connect(1)
    assert scene.rest_s == pytest.approx(4 * 0.002)


def test_who_waits_when_all_ends_is_closed_and_counted_no_more(scene: Scene):
    scene.connect(5)
    scene.arrivals.close()
    assert scene.room.per_user.held("eve") == 3
    assert scene.clients[-1].recv(1) == b""
