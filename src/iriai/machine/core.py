"""The parts of one machine as one object: a turn takes events in and gives effects out.

Messages between its own parts are delivered on the spot, within the turn: they share the machine's
fate, so none of them needs to be durable before another part acts on it. What leaves the turn
(`Turn.outward`), messages to other machines among it, must wait until the turn's records are
durable; whoever drives this sees to it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import NoReturn, assert_never

from iriai.broker.core import Broker
from iriai.home.core import Home
from iriai.machine.checks import check_attempts, check_reasons, check_views
from iriai.model.ids import JobId
from iriai.model.instant import Instant
from iriai.model.job import JobSpec
from iriai.model.problem import Refused
from iriai.model.reason import Reason
from iriai.model.records import Record
from iriai.node.core import Node
from iriai.protocol.effects import (
    Delivered,
    Effect,
    LauncherEvent,
    LinkDown,
    LinkUp,
    Part,
    Persist,
    Send,
    Wake,
)
from iriai.protocol.messages import Message

MachineEvent = LauncherEvent | Wake | Delivered | LinkUp | LinkDown
PartEvent = Message | Wake | LinkUp | LinkDown

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
    """Node, home and broker of one machine, or those of them that it has; see the module."""

    def __init__(
        self,
        name: str,
        node: Node | None,
        home: Home | None,
        broker: Broker | None,
        *,
        broker_at: str = "",
    ) -> None:
        """`name` is the machine's, and that of its home; `broker_at` the broker's (empty: here)."""
        self.name = name
        self._node = node
        self._home = home
        self._broker = broker
        self._broker_at = broker_at or name
        self._inbox: deque[Send] = deque()
        self._turn = Turn()

    @property
    def node(self) -> Node:
        """Its node; raises `Refused` where it has none."""
        return self._node or self._lacks(Part.NODE)

    @property
    def home(self) -> Home:
        """Its home; raises `Refused` where it has none."""
        return self._home or self._lacks(Part.HOME)

    @property
    def broker(self) -> Broker:
        """Its broker; raises `Refused` where it has none."""
        return self._broker or self._lacks(Part.BROKER)

    @property
    def parts(self) -> tuple[Part, ...]:
        """Those that it has."""
        every = ((Part.NODE, self._node), (Part.HOME, self._home), (Part.BROKER, self._broker))
        return tuple(part for part, core in every if core is not None)

    def follow(self, machine: str) -> None:
        """From now on its broker is that machine's."""
        self._broker_at = machine

    def begin(self, now: Instant) -> None:
        """After construction from a store: the home asks again for what it does not know."""
        if self._home is not None:
            self._take(self._home.rejoin(now))

    def handle(self, event: MachineEvent, now: Instant) -> None:
        """Take one event in; `settle` ends the turn."""
        match event:
            case Wake(part):
                self._take(self._told(part, event, now))
            case Delivered(_, part, message):
                self._take(self._told(part, message, now))
            case LinkUp() | LinkDown():
                for part in self.parts:
                    self._take(self._told(part, event, now))
                if isinstance(event, LinkUp) and event.machine == self._broker_at:
                    self._broker_is_back()
            case _:
                self._take(self.node.handle(event, now))

    def submit(self, spec: JobSpec, payloads: tuple[tuple[str, bytes], ...], now: Instant) -> JobId:
        """Accept a job; its id may leave when the turn's records are durable."""
        return self.home.submit(spec, payloads, now)

    def settle(self, now: Instant) -> Turn:
        """Deliver, decide, record: the turn's records and what must wait for them."""
        for _ in range(ROUNDS_MAX):
            self._deliver(now)
            if self._home is not None:
                self._take(self._home.settle(now))
            if self._node is not None:
                self._take(self._node.settle(now))
            self._deliver(now)
            if self._broker is not None:
                self._take(self._broker.settle(now))
            if not self._inbox:
                break
        else:
            raise AssertionError("the parts of this machine do not come to rest")
        if self._home is not None:
            self._take(self._home.record(now))
        turn, self._turn = self._turn, Turn()
        return turn

    def explain(self, number: int, now: Instant) -> list[Reason]:
        """Why the first waiting task of a job has not started, the main reason first.

        Empty only where no task of it waits. Raises `NotFound`.
        """
        if not self.home.job(number).waiting:
            return []
        return self.home.explain(number) or self.broker.explain(JobId(self.home.name, number), now)

    def estimated_starts(self, now: Instant) -> dict[int, float]:
        """When waiting jobs of this home may start, on the wall clock; only where it has a broker.

        A guess for listings, for jobs without a promise; not for all of very many.
        """
        if self._broker is None or self._home is None:
            return {}
        if not any(job.waiting and job.promised_wall_s is None for job in self._home.jobs.values()):
            return {}
        return {
            job.number: now.wall_s + in_s
            for job, in_s in self._broker.estimated_starts(now).items()
            if job.home == self._home.name
        }

    def check(self, now: Instant) -> None:
        """After a turn: raise where an invariant of a part, or of them together, is broken."""
        for core in (self._node, self._home, self._broker):
            if core is not None:
                core.check()
        if self._node is not None and self._home is not None and self._broker is not None:
            check_attempts(self._node, self._home)
            check_views(self._node, self._home, self._broker)
            check_reasons(self._home, self._broker, now)

    def _broker_is_back(self) -> None:
        """What this machine said to the broker may be lost."""
        if self._node is not None:
            self._node.report_anew()
        if self._home is not None:
            self._home.post_anew()

    def _lacks(self, part: Part) -> NoReturn:
        raise Refused(
            "no-such-part",
            f"{self.name} has no {part}: it is one of several machines that work together",
            f"ask {self._broker_at}" if self._broker_at != self.name else "ask another machine",
        )

    def _deliver(self, now: Instant) -> None:
        inbox = self._inbox
        while inbox:
            send = inbox.popleft()
            self._take(self._told(send.part, send.message, now))

    def _told(self, part: Part, event: PartEvent, now: Instant) -> list[Effect]:
        """Have a part of this machine handle what it was told."""
        match part:
            case Part.NODE:
                return self.node.handle(event, now)  # type: ignore[arg-type]
            case Part.HOME:
                return self.home.handle(event, now)  # type: ignore[arg-type]
            case Part.BROKER:
                return self.broker.handle(event, now)  # type: ignore[arg-type]
            case Part.MEMBERSHIP | Part.DIRECTORY:
                return self._lacks(part)
            case _:
                assert_never(part)

    def _take(self, effects: list[Effect]) -> None:
        turn = self._turn
        for effect in effects:
            if type(effect) is Send:
                self._post(effect)
            elif type(effect) is Persist:
                turn.records.append(effect.record)
                turn.is_urgent |= effect.urgent
            else:
                turn.outward.append(effect)

    def _post(self, send: Send) -> None:
        """To a part of this machine at once, to others when the turn's records are durable."""
        machine = send.machine or (self._broker_at if send.part is Part.BROKER else self.name)
        if machine == self.name:
            self._inbox.append(send)
        else:
            self._turn.outward.append(Send(machine, send.part, send.message))
