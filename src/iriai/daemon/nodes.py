"""What `iriai nodes`, `drain` and `resume` are answered: the machines that run tasks."""

from __future__ import annotations

from dataclasses import dataclass

from iriai.broker.machines import MachineView
from iriai.daemon.clients import Asked, Handler
from iriai.daemon.engine import Engine
from iriai.daemon.link import MachineLink
from iriai.daemon.links import Links
from iriai.daemon.load_sensor import LoadSensor
from iriai.daemon.settings import Settings
from iriai.daemon.unstored import Answerable, Unstored
from iriai.model.ad import MIB, attributes_of
from iriai.model.ids import AttemptId
from iriai.model.instant import Instant
from iriai.model.problem import NotAllowed, NotFound, Problem, Refused, UsageProblem
from iriai.model.reason import Reason, Rule
from iriai.model.resources import Resources
from iriai.model.units import format_size
from iriai.protocol.effects import Part
from iriai.wire.links import Bid, Obeyed
from iriai.wire.machines import Drain, NodeRow, Nodes, NodeTable, Resume
from iriai.wire.requests import AnswerBody, Done

HERE, UP, DOWN = "here", "up", "down"
"""How a machine is reached."""
DRAINED, AWAY, UNAVAILABLE = "drained", "away", "unavailable"
"""States of a machine that takes nothing; one that does is `up` as well."""
REASON_LENGTH_MAX = 500
"""Of why a machine is drained: it stands in tables."""


@dataclass(frozen=True, slots=True)
class _Bidder:
    """An operator of the front end, at the other end of a link."""

    link: MachineLink
    number: int

    def answer(self, body: AnswerBody) -> None:
        """It is done."""
        self.link.say(Obeyed(self.number))

    def fail(self, problem: Problem) -> None:
        """It is not."""
        words = (problem.exit_code, problem.code, problem.message, problem.hint)
        self.link.say(Obeyed(self.number, *words))


class NodeAnswers:
    """Handlers of the requests about machines; see the module."""

    def __init__(
        self,
        settings: Settings,
        engine: Engine,
        unstored: Unstored,
        links: Links | None,
        sensor: LoadSensor,
    ) -> None:
        """`links` are a front end's; None: a back end."""
        self._settings = settings
        self._engine = engine
        self._unstored = unstored
        self._links = links
        self._sensor = sensor

    def handlers(self) -> dict[type, Handler]:
        """Each request's handler."""
        return {Nodes: self._nodes, Drain: self._change, Resume: self._change}

    def bid(self, link: MachineLink, bid: Bid) -> None:
        """An operator of the front end asks something of this machine."""
        bidder = _Bidder(link, bid.number)

        def handle(now: Instant) -> None:
            try:
                self._change_here(bidder, bid.body, bid.by, now)
            except Problem as problem:
                bidder.fail(problem)

        self._engine.request(handle)

    # --- changing --------------------------------------------------------------------------------

    def _change(self, asked: Asked, body: Drain | Resume, now: Instant) -> None:
        if not asked.caller.operator:
            raise NotAllowed(
                "not-an-operator",
                f"{asked.caller.person.name} may not drain or resume machines",
                f"members of the group {self._settings.configuration.identity.operators} may",
            )
        if isinstance(body, Drain) and not 0 < len(body.reason) <= REASON_LENGTH_MAX:
            raise UsageProblem(
                "bad-reason",
                "a machine is drained for a reason that people read",
                f"give one with --reason, of at most {REASON_LENGTH_MAX} letters",
            )
        name = body.node or self._settings.home
        if name == self._settings.home and self._settings.role.has_node:
            self._change_here(asked, body, asked.caller.person.name, now)
            return
        known = self._links.known.names() if self._links else []
        if name not in known:
            own = [self._settings.home] if self._settings.role.has_node else []
            there = ", ".join([*own, *known]) or "none yet"
            raise NotFound(
                "no-such-machine",
                f"{name} is no machine that runs tasks for {self._settings.home}",
                f"there are: {there}",
            )
        assert self._links is not None
        self._links.pass_on(asked, name, body)

    def _change_here(self, asked: Answerable, body: Drain | Resume, by: str, now: Instant) -> None:
        self._unstored.check()
        node = self._engine.machine.node
        if isinstance(body, Drain):
            node.drain(body.reason, by, now)
        elif not node.resume(by, now):
            other = node.unavailable()
            raise Refused(
                "not-drained",
                f"{self._settings.home} is not drained",
                f"it takes nothing because of {other}" if other else "it takes tasks",
            )
        self._unstored.answer(asked, Done())

    # --- looking ---------------------------------------------------------------------------------

    def _nodes(self, asked: Asked, body: Nodes, now: Instant) -> None:
        machine = self._engine.machine
        if self._links is None or (Part.BROKER not in machine.parts and Part.NODE in machine.parts):
            asked.answer(NodeTable((self._own_row(),)))
            return
        views = self._engine.machine.broker.state.machines
        rows = {name: self._row(view) for name, view in views.items()}
        for name in self._links.known.names():
            if name not in rows:
                rows[name] = self._unheard_row(name)
        asked.answer(NodeTable(tuple(rows[name] for name in sorted(rows))))

    def _own_row(self) -> NodeRow:
        node = self._engine.machine.node
        return node_row(
            self._settings.home,
            node.unavailable(),
            (self._settings.capacity, node.calendar.free),
            (self._sensor.average, self._sensor.foreign),
            self._settings.configuration.machine.speed,
            len(node.running()),
            HERE,
        )

    def _row(self, view: MachineView) -> NodeRow:
        calendar = view.calendar
        return node_row(
            view.name,
            view.unavailable,
            (calendar.capacity, calendar.free),
            (view.load, view.foreign_load),
            view.speed,
            sum(1 for key in calendar if isinstance(key, AttemptId)),
            self._link(view.name),
            (*given_beyond(view), *self._seen_of(view.name)),
        )

    def _seen_of(self, name: str) -> list[str]:
        """What the home here saw of a machine that runs its tasks."""
        machine = self._engine.machine
        return machine.home.observed.differences(name) if Part.HOME in machine.parts else []

    def _unheard_row(self, name: str) -> NodeRow:
        """Of a machine that was linked once, and has reported nothing to this daemon."""
        nothing = Resources(cpus=0)
        return node_row(name, None, (nothing, nothing), (0.0, 0.0), 1.0, 0, self._link(name))

    def _link(self, name: str) -> str:
        if name == self._settings.home:
            return HERE
        return UP if self._links is not None and self._links.is_up(name) else DOWN


def node_row(
    name: str,
    unavailable: Reason | None,
    room: tuple[Resources, Resources],
    load: tuple[float, float],
    speed: float,
    tasks: int,
    link: str,
    differs: tuple[str, ...] = (),
) -> NodeRow:
    """One line of `iriai nodes`; `room` is (all, free), `load` (all, foreign)."""
    state = UP
    if link == DOWN:
        state = AWAY
    elif unavailable is not None:
        state = DRAINED if unavailable.rule is Rule.DRAINED else UNAVAILABLE
    reason = unavailable.had if unavailable else ""
    capacity, free = room
    return NodeRow(
        name,
        state,
        reason or ("it has no link" if link == DOWN else ""),
        capacity.cpus,
        free.cpus,
        capacity.memory_bytes,
        free.memory_bytes,
        capacity.gpus,
        free.gpus,
        *load,
        speed,
        tasks,
        link,
        differs,
    )


def given_beyond(view: MachineView) -> tuple[str, ...]:
    """What a machine gives away more of than it found there itself."""
    found = attributes_of(view.ad)
    given = view.calendar.capacity
    memory_mib, cpus = found.get("DetectedMemory"), found.get("DetectedCpus")
    words = []
    if isinstance(memory_mib, int) and given.memory_bytes // MIB > memory_mib > 0:
        there, more = format_size(memory_mib * MIB), format_size(given.memory_bytes)
        words.append(f"it gives away {more} of memory, and has {there}")
    if isinstance(cpus, int) and given.cpus > cpus > 0:
        words.append(f"it gives away {given.cpus} cpus, and has {cpus}")
    return tuple(words)
