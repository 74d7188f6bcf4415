"""Drains and resumes the node of this machine, for its operators and those of its front end."""

from __future__ import annotations

from iriai.daemon.loop.engine import Engine
from iriai.daemon.loop.pending import Pending
from iriai.daemon.server.request_scheduling import Durability
from iriai.machine.operator_requests import change
from iriai.model.instant import Instant
from iriai.wire.inquiries import AskDrain


class NodeDrain:
    """Changes whether the node starts tasks."""

    def __init__(self, engine: Engine, durability: Durability) -> None:
        self._engine = engine
        self._durability = durability
        self._asked: AskDrain | None = None
        self._answer: Pending[None] = Pending()

    def change(self, reason: str | None, by: str, now: Instant) -> Pending[None]:
        """Drain for a reason, or resume (None); await until that is durable. Within a turn."""
        self._durability.check()
        change(self._engine.machine.node, reason, by, now)
        return self._durability.stored()

    def asked(self, question: AskDrain, now: Instant) -> Pending[None]:
        """Do what an operator of the front end asks, once where the question is repeated."""
        if question != self._asked:
            self._answer = self.change(question.reason, question.by, now)
            self._asked = question
        return self._answer
