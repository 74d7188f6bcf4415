"""What `iriai nodes`, `drain` and `resume` are answered: the machines that run tasks."""

from __future__ import annotations

from iriai.broker.machines import MachineView
from iriai.daemon.clients import Asked, Handler
from iriai.daemon.engine import Engine
from iriai.daemon.links import Links
from iriai.daemon.settings import Settings
from iriai.model.ids import AttemptId
from iriai.model.instant import Instant
from iriai.model.reason import Reason
from iriai.model.resources import Resources
from iriai.wire.machines import NodeRow, Nodes, NodeTable

AWAY = "away"
HERE = "here"


class NodeAnswers:
    """Handlers of the requests about machines; see the module."""

    def __init__(self, settings: Settings, engine: Engine, links: Links | None) -> None:
        self._settings = settings
        self._engine = engine
        self._links = links

    def handlers(self) -> dict[type, Handler]:
        """Each request's handler."""
        return {Nodes: self._nodes}

    def _nodes(self, asked: Asked, body: Nodes, now: Instant) -> None:
        role = self._settings.role
        if not role.has_home:
            asked.answer(NodeTable((self._own_row(),)))
            return
        views = self._engine.machine.broker.state.machines
        rows = {name: self._row(view) for name, view in views.items()}
        known = self._links.known.names() if self._links else []
        for name in known:
            if name not in rows:
                rows[name] = self._unheard_row(name)
        asked.answer(NodeTable(tuple(rows[name] for name in sorted(rows))))

    def _own_row(self) -> NodeRow:
        node = self._engine.machine.node
        return node_row(
            self._settings.home,
            node.unavailable(),
            self._settings.capacity,
            node.calendar.free,
            self._settings.configuration.machine.speed,
            len(node.running()),
            HERE,
        )

    def _row(self, view: MachineView) -> NodeRow:
        tasks = sum(1 for key in view.calendar if isinstance(key, AttemptId))
        calendar = view.calendar
        link = self._link(view.name)
        return node_row(
            view.name, view.unavailable, calendar.capacity, calendar.free, view.speed, tasks, link
        )

    def _unheard_row(self, name: str) -> NodeRow:
        """Of a machine that was linked once, and has reported nothing to this daemon."""
        nothing = Resources(cpus=0)
        return node_row(name, None, nothing, nothing, 1.0, 0, self._link(name))

    def _link(self, name: str) -> str:
        if name == self._settings.home:
            return HERE
        return "up" if self._links is not None and self._links.is_up(name) else "down"


def node_row(
    name: str,
    unavailable: Reason | None,
    capacity: Resources,
    free: Resources,
    speed: float,
    tasks: int,
    link: str,
) -> NodeRow:
    """One line of `iriai nodes`."""
    reason = f"{unavailable.had} (needs {unavailable.needed})" if unavailable else ""
    state = "up" if unavailable is None else "unavailable"
    if link == "down":
        state, reason = AWAY, reason or "it has no link"
    return NodeRow(
        name,
        state,
        reason,
        capacity.cpus,
        free.cpus,
        capacity.memory_bytes,
        free.memory_bytes,
        capacity.gpus,
        free.gpus,
        0.0,
        0.0,
        speed,
        tasks,
        link,
    )
