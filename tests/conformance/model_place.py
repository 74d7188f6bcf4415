"""The simulator's launcher in a world of its own, where time passes when a story waits."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from iriai.model.ids import AttemptId
from iriai.model.owner import SignKind
from iriai.protocol.messages.effects import Effect, LauncherLost
from iriai.sim.world.clock import Clock
from iriai.sim.world.launcher_model import LauncherModel
from iriai.sim.world.work import Work, Works
from tests.conformance.place import Place


class ModelPlace(Place):
    """See the module."""

    user = "ann"
    directory = "/"

    def __init__(self) -> None:
        super().__init__()
        self._works = Works()
        self._clock = Clock(steady_offset_s=500.0)
        self._launcher = LauncherModel(self._clock, self._works)
        self._now_s = 0.0
        self._plays, self._look_s = False, inf
        self.attach()

    def prepare(self, attempt: AttemptId, work: Work) -> tuple[str, ...]:
        self._works.give(attempt.home, attempt.number, work)
        return ("work",)

    def order(self, *effects: Effect) -> None:
        for effect in effects:
            self.heard += self._launcher.order(effect, self._now_s)

    def until(self, condition: Callable[[], object], what: str) -> None:
        while not condition():
            next_s = min(self._launcher.next_end_s(), self._look_s)
            if next_s == inf and self._is_away:
                own = [each.own_end_s for each in self._launcher.running.values()]
                next_s = min((end_s for end_s in own if end_s > self._now_s), default=inf)
            assert next_s < inf, f"waited in vain for: {what}"
            self._go_to(next_s)

    def pass_s(self, seconds: float) -> None:
        until_s = self._now_s + seconds
        while (next_s := min(self._launcher.next_end_s(), self._look_s)) <= until_s:
            self._go_to(next_s)
        self._go_to(until_s)

    def steady_s(self) -> float:
        return self._clock.steady_s(self._now_s)

    def wall_s(self) -> float:
        return self._clock.at(self._now_s).wall_s

    def runs(self, attempt: AttemptId) -> bool:
        return self._launcher.runs(attempt, self._now_s)

    def starts(self, attempt: AttemptId) -> int:
        return self._launcher.starts.count(attempt)

    def attach(self) -> None:
        self.heard.clear()
        self.heard += self._launcher.welcome()

    def die(self) -> None:
        self._launcher.die(self._now_s)
        self.heard.append(LauncherLost())

    def come_up(self) -> None:
        self._launcher.start(self._now_s)
        self.attach()

    def stop(self) -> None:
        self._launcher.stop(self._now_s)

    def wake(self) -> None:
        self.heard += self._launcher.wake(self._now_s)

    def have_prolog(self, *, fails: bool) -> None:
        self._launcher.fails_prolog = fails

    def use(self) -> None:
        self.heard += self._launcher.sign(SignKind.INPUT, self._now_s)

    def play(self, *, begins: bool) -> None:
        self._plays = begins
        self._look()

    def _look(self) -> None:
        """The sensor looks, and once a second from then on while there is something to see."""
        self.heard += self._launcher.looks_for(SignKind.PROGRAM, self._now_s, holds=self._plays)
        self._look_s = self._now_s + 1.0 if self._plays else inf

    @property
    def _is_away(self) -> bool:
        return self._launcher.is_stopped or not self._launcher.is_up

    def _go_to(self, now_s: float) -> None:
        self._now_s = max(self._now_s, now_s)
        self.heard += self._launcher.ends_until(self._now_s)
        if self._now_s >= self._look_s:
            self._look()
