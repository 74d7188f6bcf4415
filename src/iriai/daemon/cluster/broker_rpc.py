"""Questions of this machine to the broker of its cluster, and its answers as the broker."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Any, TypeVar

from iriai.cluster.broker_questions import (
    Answerer,
    BrokerQuestions,
    BrokerReplied,
    BrokerReply,
    ClusterReply,
    SilentClusters,
    answer_of,
    declined,
    question_in,
)
from iriai.daemon.cluster.node_drain import NodeDrain
from iriai.daemon.loop.engine import Engine
from iriai.daemon.loop.pending import Pending
from iriai.daemon.loop.routes import Outgoing
from iriai.model.instant import Instant
from iriai.model.problem import Problem, Unreachable
from iriai.protocol.messages.effects import (
    Delivered,
    Effect,
    Inquired,
    Part,
    PeerNoticed,
    Send,
    Wake,
    WakeAt,
)
from iriai.system.clock import now as read_clocks
from iriai.system.internal_errors import FAULTS
from iriai.wire.inquiries import AskDrain, DrainChanged, Question, Told

T = TypeVar("T", bound=Told)

log = logging.getLogger(__name__)


class BrokerRpc:
    """Asks the broker of the cluster, and answers others as the broker."""

    def __init__(
        self, engine: Engine, drain: NodeDrain, front_end: str, *, is_member: bool
    ) -> None:
        """`is_member`: the machine has links with others of a cluster.

        `front_end` is the machine whose operators `drain` its node; empty: it has none.
        """
        self._drain = drain
        self._front_end = front_end
        self.answerers: dict[type, Answerer] = {}
        """By kind of question, what this machine answers where it is the broker."""
        self._is_member = is_member
        self._engine = engine
        self._questions = BrokerQuestions()
        self._silent = SilentClusters()
        self._waiting: dict[int, Pending[BrokerReply[Any]]] = {}
        self._loop = asyncio.get_running_loop()
        self._alarm: asyncio.TimerHandle | None = None

    @property
    def is_here(self) -> bool:
        """Return whether this machine answers itself: it is the broker, or has no links."""
        return Part.BROKER in self._engine.machine.parts or not self._is_member

    async def ask(self, question: Question, kind: type[T]) -> BrokerReply[T]:
        """Ask the broker: at once if it is here."""
        if not self.is_here:
            broker = self._engine.machine.broker_at
            return await self._ask_at(broker, question, kind, may_go_on=False)
        try:
            told = self.answerers[type(question)](question, self._engine.now)
        except Problem as problem:
            return BrokerReply(problem=problem)
        if not isinstance(told, kind):
            raise TypeError(f"{type(told).__name__} is not an answer to {type(question).__name__}")
        return BrokerReply(told)

    async def drain(self, machine: str, reason: str | None, by: str) -> None:
        """Have a back end of this machine drained, or resumed (None); raise a `Problem`."""
        question = AskDrain(by, reason, self._engine.now.wall_s)
        reply = await self._ask_at(machine, question, DrainChanged, may_go_on=False)
        if reply.checked() is None:
            raise Unreachable(
                "no-answer",
                f"{machine} has not answered",
                "check with 'iriai nodes' whether it was done, and repeat it if not",
            )

    async def ask_clusters(self, question: Question, kind: type[T]) -> list[ClusterReply[T]]:
        """Ask the brokers of all other clusters of the site at once.

        Returns the reply of each: once all that are asked have answered, or timed out.
        """
        to_ask = self._silent.to_ask(self._engine.machine.peer_clusters, self._engine.now)
        asked = {
            cluster: self._ask_at(machine, question, kind, may_go_on=True)
            for cluster, (machine, _) in to_ask.items()
            if machine
        }
        replies: list[ClusterReply[T]] = []
        for cluster, (_, missing) in to_ask.items():
            if cluster not in asked:
                replies.append(ClusterReply(cluster, None, missing))
                continue
            reply = await asked[cluster]
            if reply.missing:
                log.info("cluster %s did not answer a question: %s", cluster, reply.missing)
            replies.append(self._silent.replied(cluster, reply, self._engine.now))
        return replies

    def handle(self, event: Delivered | Wake) -> None:
        """Handle a message of another machine, or the alarm."""
        self._perform(self._questions.handle(event, read_clocks("inquiry")))

    def close(self) -> None:
        """Cancel the alarm."""
        if self._alarm is not None:
            self._alarm.cancel()

    # --- within ----------------------------------------------------------------------------------

    def _ask_at(
        self, broker: str, question: Question, kind: type[T], *, may_go_on: bool
    ) -> Pending[BrokerReply[T]]:
        """Ask a machine that is taken for a broker; see `BrokerQuestions.ask`."""
        now = read_clocks("inquiry")
        number, effects = self._questions.ask(broker, question, kind, now, may_go_on=may_go_on)
        pending: Pending[BrokerReply[T]] = Pending()
        self._waiting[number] = pending
        self._perform(effects)
        return pending

    def _perform(self, effects: Iterable[Effect | BrokerReplied]) -> None:
        sends = [each for each in effects if isinstance(each, Send)]
        if sends:
            self._engine.routes.tell(Outgoing(sends))
        for effect in effects:
            if isinstance(effect, WakeAt):
                self._set_alarm(effect)
            elif isinstance(effect, Inquired):
                self._asked(effect)
            elif isinstance(effect, BrokerReplied):
                self._waiting.pop(effect.number).resolve(effect.reply)
            elif isinstance(effect, PeerNoticed):
                self._engine.routes.tell(effect)

    def _set_alarm(self, wake: WakeAt) -> None:
        self.close()
        delay_s = max(0.0, wake.steady_s - read_clocks("inquiry").steady_s)
        self._alarm = self._loop.call_later(delay_s, self.handle, Wake(Part.INQUIRY))

    def _asked(self, inquired: Inquired) -> None:
        """Answer a question of another machine within a turn."""

        def handle(now: Instant) -> None:
            machine = self._engine.machine
            is_broker = Part.BROKER in machine.parts
            try:
                question = question_in(
                    inquired,
                    machine.name,
                    machine.broker_at,
                    self._front_end,
                    is_broker=is_broker,
                )
                if isinstance(question, AskDrain):
                    stored = self._drain.asked(question, now)
                    stored.then(lambda: self._drained(inquired, stored))
                    return
                told = answer_of(question, self.answerers, machine.name, now)
            except Problem as problem:
                told = declined(problem)
            except Exception as error:  # noqa: BLE001 - it only looked: nobody else is concerned
                words = FAULTS.note(f"a question of {inquired.machine}", error)
                told = declined(Problem("internal", words, "please report it"))
            self._perform(self._questions.answer(inquired, told))

        self._engine.request(handle)

    def _drained(self, inquired: Inquired, stored: Pending[None]) -> None:
        told: Told = DrainChanged()
        try:
            stored.result()
        except Problem as problem:
            told = declined(problem)
        self._perform(self._questions.answer(inquired, told))
