"""What a broker decides in one turn: a pass, a part of a long one, or a whole plan of a policy."""

from __future__ import annotations

from random import Random

from iriai.broker.scheduling.plan_policy import PlanDriver, planning_of
from iriai.broker.scheduling.prefetch import Prefetcher
from iriai.broker.scheduling.scheduling_pass import PassResult, SchedulingPass
from iriai.broker.state.decision_rng import DecisionRng
from iriai.broker.state.state import BrokerState
from iriai.model.instant import Instant


class SchedulingCycle:
    """Lives as long as the broker. Times are those of the steady clock."""

    def __init__(self, state: BrokerState, ahead: Prefetcher, rng: Random) -> None:
        self._state = state
        self._ahead = ahead
        self._dice = DecisionRng(rng)
        self.planning: PlanDriver | None = planning_of(state)
        """What plans in the place of passes; None: nothing does."""
        self._left: SchedulingPass | None = None
        """A pass that was left before its end."""
        self._turn_s = 0.0
        self._work = 0
        """Of the passes of that moment, as `turn_work_max` counts; `woken` begins anew."""

    @property
    def is_left(self) -> bool:
        """Whether a pass was left before its end: it goes on in the next turn."""
        return self._left is not None

    @property
    def wake_s(self) -> float | None:
        """When a policy wants to be asked at the latest; None: it does not say."""
        return None if self.planning is None else self.planning.wake_s

    def woken(self) -> None:
        """An alarm rang: what had arrived was taken in, so that passes may take a turn again."""
        self._work = 0

    def run(self, now: Instant, *, has_changed: bool) -> list[PassResult]:
        """Go on with the pass that was left, or begin one where anything changed."""
        if self.planning is not None:
            return [self.planning.run(self._dice, now)]
        if has_changed:
            self._left = None
        if not self._state.may_start_something:
            self._left = None  # what it had left to start was withdrawn, or was all started
            self._state.rooms.end()
            return self._hand_out_ahead(now)
        outcome = self._go_on(now)
        return [outcome] if self.is_left else [outcome, *self._hand_out_ahead(now)]

    def _go_on(self, now: Instant) -> PassResult:
        """A pass, as far as it comes in this turn."""
        state = self._state
        if now.steady_s != self._turn_s:
            self._turn_s, self._work = now.steady_s, 0
        work = state.rooms.work
        current = self._left or SchedulingPass(state, self._dice, now)
        outcome = current.run(state.settings.turn_work_max - self._work)
        self._work += state.rooms.work - work
        self._left = None if current.is_over else current
        return outcome

    def _hand_out_ahead(self, now: Instant) -> list[PassResult]:
        """Nothing that waits could start now: what comes next where short tasks run."""
        return [self._ahead.run(self._dice, now)] if self._ahead.is_due else []
