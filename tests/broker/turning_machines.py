"""Machines that do what a broker tells them of turns: what is matched runs, stands, takes turns."""

from __future__ import annotations

from dataclasses import dataclass, field

from msgspec.structs import replace

from iriai.config.sections import GangSection, QueueSection
from iriai.model.ids import AttemptId
from iriai.model.ranks import RankShape
from iriai.model.resources import Resources
from iriai.model.turn import ALWAYS, NEVER, RowSet
from iriai.protocol.messages.effects import Part, Send, Wake, WakeAt
from iriai.protocol.messages.scheduling import (
    Capability,
    ClaimTurn,
    Cycle,
    Idle,
    Match,
    MatchTurn,
    Promise,
    Running,
    Want,
)
from tests.broker.lone_broker import LoneBroker, as_running, want
from tests.support.told import attempt

GIB = 1 << 30
MODES = {1: "exclusive", 2: "gang", 3: "gang"}
CPUS = 4


@dataclass
class TurningNode:
    """One machine as it is."""

    name: str
    has_clock: bool = True
    running: dict[AttemptId, Running] = field(default_factory=dict)
    turns: dict[AttemptId, ClaimTurn] = field(default_factory=dict)
    matched: dict[Capability, MatchTurn] = field(default_factory=dict)
    cycle: int = 0
    refusals: int = 0
    """How often it has no cpus for what is to run again."""
    is_deaf: bool = False
    """Whether what it is told of turns is lost on the way."""

    def turn(self, each: AttemptId) -> RowSet:
        return self.turns[each].turn if each in self.turns else ALWAYS

    def check(self) -> None:
        rows = max((each.turn.rows for each in self.turns.values()), default=1)
        for row in range(rows):
            cpus = sum(
                claim.resources.cpus
                for each, claim in self.running.items()
                if not claim.is_preempted
                and (self.turn(each).is_whole or self.turn(each).mask >> row & 1)
            )
            assert cpus <= CPUS, f"{self.name} runs {cpus} cpus in row {row}"


class TurningMachines:
    """Each call is a turn of the broker, and those that follow from it."""

    def __init__(self, machines: int = 1, *, rows_max: int = 4, modes=None, **section) -> None:
        named = {str(n): QueueSection(mode=mode) for n, mode in (modes or MODES).items()}
        gang = GangSection(rows_max=rows_max)
        self.broker = LoneBroker(queues=named, gang=gang, **section)
        self.nodes = {f"m{n}": TurningNode(f"m{n}") for n in range(machines)}
        self.wants: dict[int, Want] = {}
        self.promised: list[tuple[int, float | None]] = []
        self.cycles: list[tuple[str, Cycle]] = []
        self.report_all()

    @property
    def state(self):
        return self.broker.broker.state

    def idle(self, node: TurningNode, free: int = 0, *, whole: bool = False, **fields) -> Idle:
        began = tuple(node.running.values()) if whole else ()
        its = {"cycle": node.cycle, "has_clock": node.has_clock, "began": began}
        capacity = Resources(CPUS, 8 * GIB)
        return self.broker.idle(
            free, whole=whole, machine=node.name, capacity=capacity, **(its | fields)
        )

    def report_all(self) -> None:
        """All machines report whole, with capabilities for many tasks."""
        self.tell(*[self.idle(node, 16, whole=True) for node in self.nodes.values()])

    def tell(self, *messages) -> None:
        inbox = list(messages)
        while inbox:
            effects = self.broker.turn(*inbox)
            inbox = []
            for effect in effects:
                match effect:
                    case Send(name, Part.NODE, Cycle() as cycle):
                        inbox += self._turned(self.nodes[name], cycle)
                    case Send(_, Part.HOME, Match() as matched):
                        inbox += self._begin(matched)
                    case Send(_, Part.HOME, Promise() as promise):
                        self.promised.append((promise.job.number, promise.start_in_s))
            if WakeAt(Part.BROKER, self.broker.now_s) in effects:
                inbox.append(Wake(Part.BROKER))
        for node in self.nodes.values():
            if not node.is_deaf:
                node.check()

    def _turned(self, node: TurningNode, cycle: Cycle) -> list[Idle]:
        self.cycles.append((node.name, cycle))
        if node.is_deaf or cycle.number <= node.cycle:
            return []
        node.cycle = cycle.number
        node.turns = {each.attempt: each for each in cycle.turns}
        node.matched = {each.capability: each for each in cycle.matched}
        changed, refuses = [], node.refusals > 0
        for each, claim in node.running.items():
            turned = node.turns.get(each, ClaimTurn(each, ALWAYS))
            is_refused = refuses and claim.is_preempted and turned.turn != NEVER
            node.refusals -= is_refused
            stands = turned.turn == NEVER or is_refused
            now = replace(claim, is_preempted=stands, row=turned.row)
            if now != claim or is_refused:
                changed.append(now)
        node.running |= {each.attempt: each for each in changed}
        return [self.idle(node, changed=tuple(changed))]

    def _begin(self, matched: Match) -> list[Idle]:
        asked, first, reports = self.wants[matched.job.number], 0, []
        for seat in matched.seats:
            node, which = self.nodes[seat.machine], attempt(matched.job.number).seat(first)
            first += seat.ranks
            whole = Resources(CPUS, 8 * GIB)
            resources = whole if asked.exclusive else asked.resources.times(seat.ranks)
            ends_in_s = asked.limit_s
            made = as_running(
                replace(asked, resources=resources),
                attempt_id=which,
                ends_in_s=ends_in_s,
                capability=seat.capability,
            )
            turned = node.matched.get(seat.capability)
            running = replace(made, queue=asked.queue, row=turned.row if turned else 0)
            node.running[which] = running
            if turned:
                node.turns[which] = ClaimTurn(which, turned.turn, turned.row)
            spent = (seat.capability,)
            reports.append(self.idle(node, 1, began=(running,), spent=spent))
        return reports

    # --- what happens ----------------------------------------------------------------------------

    def submit(self, number: int, queue: int, cpus: int = CPUS, ranks: int = 1, **fields) -> None:
        """A job of one task, with a limit of memory unless the test says another."""
        memory_bytes = fields.pop("memory_bytes", GIB)
        shape = {"shape": RankShape(ranks, ranks)} if ranks > 1 else {}
        resources = Resources(cpus, memory_bytes)
        given = {"resources": resources, "queue": queue} | shape | fields
        self.wants[number] = want(number, given.pop("user", f"user{number}"), **given)
        self.tell(self.wants[number])

    def end(self, number: int) -> None:
        reports = []
        for node in self.nodes.values():
            over = tuple(each for each in node.running if each.number == number)
            for each in over:
                del node.running[each]
                node.turns.pop(each, None)
            if over:
                reports.append(self.idle(node, len(over), ended=over))
        self.tell(*reports)

    def another_broker(self, **section) -> None:
        """It knows nothing; all that waits is said again, and machines report whole."""
        configuration = self.state.settings.configuration
        running = {each.number for node in self.nodes.values() for each in node.running}
        self.broker = LoneBroker(
            queues=configuration.queues, gang=configuration.gang, now_s=self.broker.now_s, **section
        )
        self.report_all()
        self.tell(*[asked for number, asked in self.wants.items() if number not in running])

    def after(self, seconds: float) -> None:
        """Time passes; machines report often enough not to be taken for silent."""
        until_s = self.broker.now_s + seconds
        while self.broker.now_s < until_s:
            self.broker.now_s = min(until_s, self.broker.now_s + 10.0)
            reports = [self.idle(node) for node in self.nodes.values()]
            self.tell(*reports, Wake(Part.BROKER))

    def configured(self, **queues: QueueSection) -> None:
        """Other queues are in force: `q1` is queue 1."""
        known = self.state.settings.configuration
        named = known.queues | {name[1:]: queue for name, queue in queues.items()}
        self.broker.broker.configured(replace(known, queues=named))
        self.tell(Wake(Part.BROKER))

    # --- what is so ------------------------------------------------------------------------------

    def _which(self, *, stands: bool) -> list[int]:
        found = (
            each.number
            for node in self.nodes.values()
            for each, claim in node.running.items()
            if claim.is_preempted is stands
        )
        return sorted(found)

    def running(self) -> list[int]:
        """The number of the job of each seat that its machine lets run."""
        return self._which(stands=False)

    def standing(self) -> list[int]:
        return self._which(stands=True)

    def turn(self, number: int, machine: str = "m0") -> RowSet:
        return self.nodes[machine].turn(attempt(number))

    def rows(self, machine: str = "m0") -> dict[int, int]:
        """The mask of each job that takes turns there."""
        turns = self.nodes[machine].turns
        return {a.number: each.turn.mask for a, each in turns.items() if not each.turn.is_whole}
