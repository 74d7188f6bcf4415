"""Asks the broker of another machine why a job waits."""

from __future__ import annotations

from functools import partial

from iriai.daemon.loop.engine import Engine
from iriai.daemon.loop.pending import Pending
from iriai.model.reason import Reason, Rule
from iriai.protocol.messages.effects import WhyAnswered

ASK_S = 1.0
"""Between two questions: any of them may be lost."""
ASKED_MAX = 5
"""How often it is asked; then whoever asks is told that the broker does not answer."""


class Explanations:
    """Asks the broker why jobs wait."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._asked: dict[int, list[Pending[list[Reason] | None]]] = {}
        """Questions about each job; without an answer in time the result is None."""
        engine.routes.take(WhyAnswered, self._answered)

    async def of(self, number: int) -> list[Reason]:
        """Return the reasons: at once if they are known here. Empty if the job has ended."""
        machine = self._engine.machine
        for _ in range(ASKED_MAX):
            if number not in machine.home.jobs:
                self._asked.pop(number, None)
                return []
            reasons = machine.ask_why(number, self._engine.now)
            if reasons is None:
                pending: Pending[list[Reason] | None] = Pending()
                self._asked.setdefault(number, []).append(pending)
                self._engine.later(ASK_S, partial(pending.resolve, None))
                reasons = await pending
            if reasons is not None:
                return reasons
        self._asked.pop(number, None)
        words = f"it did not answer {ASKED_MAX} times; another machine replaces it within seconds"
        return [Reason(Rule.MACHINE_AWAY, "an answer of the broker", words, machine.broker_at)]

    def _answered(self, told: WhyAnswered) -> None:
        for pending in self._asked.pop(told.number, ()):
            pending.resolve(list(told.reasons))
