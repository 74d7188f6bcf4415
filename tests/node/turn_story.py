"""A node whose claims take turns: the test plays its broker, its launcher and the home."""

from __future__ import annotations

import msgspec

from iriai.config.reader import Configuration
from iriai.config.sections import GangSection, QueueSection
from iriai.machine.node_queues import node_queues
from iriai.model.resources import Resources
from iriai.model.suspension import SuspendReason
from iriai.model.turn import NEVER, RowSet
from iriai.node.queues import NodeQueues
from iriai.protocol.clock_offset import Estimate
from iriai.protocol.messages.effects import (
    AttemptFrozen,
    AttemptStarted,
    FreezeAttempt,
    LaunchAttempt,
    OrderCycle,
)
from iriai.protocol.messages.scheduling import (
    ClaimTurn,
    Cycle,
)
from tests.node.lone_node import LoneNode
from tests.support.told import WALL_S, Told, attempt, spec

GIB = 1 << 30
EXCLUSIVE, GANG, CHEAP = 1, 2, 3
HIGHER, STOPPED = SuspendReason.HIGHER_QUEUE, SuspendReason.STOPPED_QUEUE
FIRST, SECOND = RowSet(2, 0b01), RowSet(2, 0b10)


def queues(**gang) -> NodeQueues:
    return node_queues(
        Configuration(
            queues={
                "1": QueueSection(mode="exclusive"),
                "2": QueueSection(mode="gang"),
                "3": QueueSection(mode="gang", charge_factor=0.5),
            },
            gang=GangSection(**gang),
        )
    )


class TurnStory:
    """A node of four cpus; the test plays its broker, its launcher and the home."""

    def __init__(self, **options) -> None:
        fields = {"queues": queues(), "memory_bytes": 8 * GIB}
        self.node = LoneNode(4, **(fields | options))
        self.node.node.cycle.clock_of_broker = lambda: Estimate(0.0, 0.0)
        self.number = 0

    def run(self, number: int, queue: int, cpus: int = 4, **changes) -> Told:
        """A task starts; its launcher says so."""
        said = self.node.run(number, self.spec(queue, cpus, **changes))
        if any(isinstance(each, LaunchAttempt) for each in said.others):
            started_wall_s = WALL_S + self.node.now_s
            self.node.tell(AttemptStarted(attempt(number), started_wall_s))
        return said

    def spec(self, queue: int, cpus: int = 4, **changes):
        made = spec(queue=queue, **changes)
        return msgspec.structs.replace(made, resources=Resources(cpus, GIB))

    def told(self, turns: dict[int, RowSet], **fields) -> Told:
        """The broker says that; own rows are the first of each turn."""
        each = tuple(ClaimTurn(attempt(n), turn, _first(turn)) for n, turn in turns.items())
        return self.say(turns=each, **fields)

    def say(self, **fields) -> Told:
        self.number += 1
        return self.node.tell(Cycle(**({"number": self.number} | fields)))

    def obey(self, said: Told) -> None:
        """The launcher freezes or thaws what it is to."""
        for order in frozen(said):
            now_s = self.node.now_s
            told = (order.attempt, order.number, order.reasons, self._frozen_s(order), now_s)
            self.node.tell(AttemptFrozen(*told))

    def _frozen_s(self, order: FreezeAttempt) -> float:
        suspension = self.held(order.attempt.number).suspension
        return suspension.total_s(self.node.now_s) if suspension else 0.0

    def held(self, number: int):
        return self.node.node._claims.by_attempt[attempt(number)]

    def turn(self, number: int) -> RowSet:
        held = self.held(number)
        return NEVER if held.is_preempted else held.turn

    def ran_s(self, number: int) -> float:
        return self.held(number).ran_so_far_s(self.node.now_s)

    @property
    def free(self) -> Resources:
        return self.node.node.calendar.free


def _first(turn: RowSet) -> int:
    return (turn.mask & -turn.mask).bit_length() - 1 if turn.mask and not turn.is_whole else 0


def frozen(said: Told) -> list[FreezeAttempt]:
    return [each for each in said.others if isinstance(each, FreezeAttempt)]


def orders(said: Told) -> list[OrderCycle]:
    return [each for each in said.others if isinstance(each, OrderCycle)]


def changed(story: TurnStory) -> list[int]:
    return [running.attempt.number for running in story.node.idle.changed]
