"""The parts of one machine as one object: a turn takes events in and gives effects out.

Messages between its own parts are delivered on the spot, within the turn: they share the machine's
fate, so none of them needs to be durable before another part acts on it. What leaves the turn
(`Outcome.outward`) must wait until the turn's records are durable; whoever drives this sees to it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import assert_never

from iriai.broker.core import Broker
from iriai.home.core import Home
from iriai.machine.checks import check_attempts, check_reasons, check_views
from iriai.model.ids import JobId
from iriai.model.instant import Instant
from iriai.model.job import JobSpec
from iriai.model.reason import Reason
from iriai.model.records import Record
from iriai.node.core import Node
from iriai.protocol.effects import Effect, LauncherEvent, Part, Persist, Send, Wake

ROUNDS_MAX = 1000
"""A turn settles in a handful of rounds; more is parts that answer each other for ever."""


@dataclass(slots=True)
class Turn:
    """What one turn asks for."""

    records: list[Record] = field(default_factory=list)
    is_urgent: bool = False
    """Whether something outward waits for the records."""
    outward: list[Effect] = field(default_factory=list)


class Machine:
    """Node, home and broker of one machine; see the module."""

    def __init__(self, node: Node, home: Home, broker: Broker) -> None:
        self.node = node
        self.home = home
        self.broker = broker
        self._inbox: deque[Send] = deque()
        self._turn = Turn()

    def begin(self, now: Instant) -> None:
        """After construction from a store: the home asks again for what it does not know."""
        self._take(self.home.rejoin(now))

    def handle(self, event: LauncherEvent | Wake, now: Instant) -> None:
        """Take one event in; `settle` ends the turn."""
        if isinstance(event, Wake) and event.part is Part.BROKER:
            self._take(self.broker.handle(event, now))
        else:
            self._take(self.node.handle(event, now))

    def submit(self, spec: JobSpec, payloads: tuple[tuple[str, bytes], ...], now: Instant) -> JobId:
        """Accept a job; its id may leave when the turn's records are durable."""
        return self.home.submit(spec, payloads, now)

    def settle(self, now: Instant) -> Turn:
        """Deliver, decide, record: the turn's records and what must wait for them."""
        for _ in range(ROUNDS_MAX):
            self._deliver(now)
            self._take(self.home.settle(now))
            self._take(self.node.settle(now))
            self._deliver(now)
            self._take(self.broker.settle(now))
            if not self._inbox:
                break
        else:
            raise AssertionError("the parts of this machine do not come to rest")
        self._take(self.home.record(now))
        turn, self._turn = self._turn, Turn()
        return turn

    def explain(self, number: int, now: Instant) -> list[Reason]:
        """Why the first waiting task of a job has not started, the main reason first.

        Empty only where no task of it waits. Raises `NotFound`.
        """
        if not self.home.job(number).waiting:
            return []
        return self.home.explain(number) or self.broker.explain(JobId(self.home.name, number), now)

    def check(self, now: Instant) -> None:
        """After a turn: raise where an invariant of a part, or of them together, is broken."""
        self.node.check()
        self.home.check()
        self.broker.check()
        check_attempts(self.node, self.home)
        check_views(self.node, self.home, self.broker)
        check_reasons(self.home, self.broker, now)

    def _deliver(self, now: Instant) -> None:
        inbox = self._inbox
        while inbox:
            send = inbox.popleft()
            match send.part:
                case Part.NODE:
                    effects = self.node.handle(send.message, now)  # type: ignore[arg-type]
                case Part.HOME:
                    effects = self.home.handle(send.message, now)  # type: ignore[arg-type]
                case Part.BROKER:
                    effects = self.broker.handle(send.message, now)  # type: ignore[arg-type]
                case _:
                    assert_never(send.part)
            self._take(effects)

    def _take(self, effects: list[Effect]) -> None:
        turn = self._turn
        for effect in effects:
            if type(effect) is Send:
                self._inbox.append(effect)
            elif type(effect) is Persist:
                turn.records.append(effect.record)
                turn.is_urgent |= effect.urgent
            else:
                turn.outward.append(effect)
