"""Asks the broker of another machine why a job waits."""

from __future__ import annotations

from collections.abc import Iterable

from iriai.daemon.loop.engine import Engine
from iriai.daemon.loop.pending import Pending
from iriai.model.instant import Instant
from iriai.model.reason import Reason, Rule
from iriai.protocol.messages.effects import WhyAnswered

ASK_S = 1.0
"""Between two questions: any of them may be lost."""
ASKED_MAX = 5
"""How often it is asked; then whoever asks is told that the broker does not answer."""


class Explanations:
    """Asks the broker why jobs wait, and collects the requests for each job."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._waiting: dict[int, list[Pending[list[Reason]]]] = {}
        engine.routes.take(WhyAnswered, lambda told: self._answered(told.number, told.reasons))

    async def of(self, number: int) -> list[Reason]:
        """Return the reasons: at once if they are known here."""
        reasons = self._engine.machine.ask_why(number, self._engine.now)
        if reasons is not None:
            return reasons
        pending: Pending[list[Reason]] = Pending()
        waiting = self._waiting.setdefault(number, [])
        waiting.append(pending)
        if len(waiting) == 1:
            self._again_later(number, 1)
        return await pending

    def _again_later(self, number: int, times: int) -> None:
        def again(now: Instant) -> None:
            if number not in self._waiting:
                return
            if number not in self._engine.machine.home.jobs:
                self._answered(number, ())
                return
            reasons = self._engine.machine.ask_why(number, now)
            if reasons is not None:
                self._answered(number, reasons)
            elif times < ASKED_MAX:
                self._again_later(number, times + 1)
            else:
                self._answered(number, [self._silent()])

        self._engine.later(ASK_S, lambda: self._engine.request(again))

    def _answered(self, number: int, reasons: Iterable[Reason]) -> None:
        told = list(reasons)
        for pending in self._waiting.pop(number, ()):
            pending.resolve(told)

    def _silent(self) -> Reason:
        return Reason(
            Rule.MACHINE_AWAY,
            "an answer of the broker",
            f"it did not answer {ASKED_MAX} times; another machine replaces it within seconds",
            self._engine.machine.broker_at,
        )
