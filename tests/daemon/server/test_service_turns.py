"""Users are served in turns; time here passes with each request, and not otherwise."""

from __future__ import annotations

from iriai.config.limits import LimitsSection
from iriai.daemon.server.request_scheduling import (
    ALONE_S,
    SLICE_S,
    TURN_ALONE_S,
    TURN_S,
    ServiceTurns,
)
from iriai.model.instant import Instant

REQUEST_S = SLICE_S / 4


class Scene:
    """An engine that makes turns when told, and what was served in each."""

    def __init__(self, **limits) -> None:
        self.now_s = 0.0
        self.turns_due = []
        self.alarms = []
        self.served = []
        self.turns = ServiceTurns(self, LimitsSection(**limits), self.clock)

    def clock(self) -> float:
        return self.now_s

    def request(self, request) -> None:
        self.turns_due.append(request)

    def later(self, delay_s, action) -> None:
        self.alarms.append((self.now_s + delay_s, action))

    def turn(self) -> list[str]:
        """One turn of the engine; whose requests were served."""
        self.served.clear()
        due, self.turns_due = self.turns_due, []
        assert len(due) == 1
        due[0](Instant(self.now_s, 0.0))
        return list(self.served)

    def asks(self, user: str, requests: int, *, operator: bool = False) -> Asker:
        asker = Asker(self, user, requests, operator)
        self.turns.ready(asker)
        return asker


class Asker:
    """A client with so many requests."""

    def __init__(self, scene: Scene, user: str, requests: int, operator: bool) -> None:
        self.scene = scene
        self.user = user
        self.is_operator = operator
        self.requests = requests
        self.is_paused = False

    @property
    def has_work(self) -> bool:
        return self.requests > 0

    def work(self, until_s, requests_max, now) -> int:
        begun = 0
        while self.requests and begun < requests_max:
            self.requests -= 1
            begun += 1
            self.scene.served.append(self.user)
            self.scene.now_s += REQUEST_S
            if self.scene.now_s >= until_s:
                break
        return begun

    def rest(self) -> None:
        self.is_paused = False

    def pause(self) -> None:
        self.is_paused = True


def test_one_who_asks_little_is_served_in_the_next_turn():
    scene = Scene()
    eves = [scene.asks("eve", 10_000) for _ in range(10)]
    assert scene.turn() == ["eve"] * round(TURN_S / REQUEST_S)
    assert all(eve.is_paused for eve in eves)
    ann = scene.asks("ann", 2)
    assert scene.turn()[:2] == ["ann", "ann"]
    assert not ann.is_paused
    assert all(eve.is_paused for eve in eves)


def test_who_is_alone_for_long_is_served_in_long_turns_until_another_asks():
    scene = Scene()
    scene.asks("ann", 10_000)
    assert lasts_s(scene) <= TURN_S + REQUEST_S
    scene.now_s += 2 * ALONE_S
    assert lasts_s(scene) >= TURN_ALONE_S
    scene.asks("bob", 1)
    scene.turn()
    assert lasts_s(scene) <= TURN_S + REQUEST_S


def lasts_s(scene: Scene) -> float:
    """How long the next turn serves."""
    began_s = scene.now_s
    scene.turn()
    return scene.now_s - began_s


def test_those_who_ask_much_get_the_same():
    scene = Scene()
    for user, connections in (("eve", 30), ("ann", 1)):
        for _ in range(connections):
            scene.asks(user, 10_000)
    served = [user for _ in range(100) for user in scene.turn()]
    assert abs(served.count("eve") - served.count("ann")) <= SLICE_S / REQUEST_S


def test_operators_get_more():
    scene = Scene()
    scene.asks("eve", 10_000)
    scene.asks("root", 10_000, operator=True)
    served = [user for _ in range(100) for user in scene.turn()]
    assert 3 < served.count("root") / served.count("eve") < 5


def test_one_alone_has_the_whole_turn_and_all_of_them():
    scene = Scene()
    eve = scene.asks("eve", 1000)
    while scene.turns_due:
        scene.turn()
    assert not eve.has_work
    assert not eve.is_paused


def test_who_asks_too_fast_is_slowed_and_not_refused():
    scene = Scene(requests_per_s=10, requests_burst=5)
    eve, ann = scene.asks("eve", 100), scene.asks("ann", 3)
    served = scene.turn()
    assert (served.count("eve"), served.count("ann")) == (5, 3)
    assert eve.is_paused
    assert not ann.has_work
    assert not scene.turns_due, "nobody is served who has no tokens"
    assert scene.turns.slowed == {"eve": 1}
    more = scene.asks("eve", 1)
    assert more.is_paused, "nor on another connection"
    [(at_s, again)] = scene.alarms
    scene.now_s = at_s
    again()
    assert scene.turn() == ["eve"]


def test_no_rate_holds_for_operators():
    scene = Scene(requests_per_s=10, requests_burst=5)
    scene.asks("root", 10, operator=True)
    assert scene.turn() == ["root"] * 10
