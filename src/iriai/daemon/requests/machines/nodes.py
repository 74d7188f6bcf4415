"""Handlers of `iriai nodes`: the broker's view of machines, their membership, their removal."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import UNSET
from msgspec.structs import replace

from iriai.broker.pool.machine_view import MachineView
from iriai.cluster.broker_questions import ClusterReply, missing_text
from iriai.daemon.cluster.broker_rpc import BrokerRpc
from iriai.daemon.cluster.seen_member import SeenMember
from iriai.daemon.host.load_sensor import LoadSensor
from iriai.daemon.loop.engine import Engine
from iriai.daemon.net.local_links import LocalLinks
from iriai.daemon.server.connections import RequestContext
from iriai.daemon.server.handler_table import handles
from iriai.daemon.startup.settings import DaemonSettings
from iriai.model.ad import MIB, attributes_of
from iriai.model.ids import AttemptId
from iriai.model.instant import Instant
from iriai.model.problem import NotFound, Refused
from iriai.model.reason import Reason, Rule
from iriai.model.resources import NOTHING, Resources
from iriai.model.units import format_size
from iriai.protocol.messages.members import MemberState
from iriai.wire.exchange import Done
from iriai.wire.machines import AskNodes, Forget, NodeRow, NodeTable

HERE, UP, DOWN = "here", "up", "down"
"""How a machine is reached."""
DRAINED, AWAY, UNAVAILABLE, UNKNOWN = "drained", "away", "unavailable", "unknown"
"""States of a machine that takes nothing, or of which nothing is known; else it is `up` as well."""
GONE = {
    MemberState.DEAD: "it does not answer",
    MemberState.LEFT: "it left the cluster",
}


class NodeTables:
    """Handlers of the requests about the list of machines."""

    def __init__(
        self,
        settings: DaemonSettings,
        engine: Engine,
        links: LocalLinks | None,
        sensor: LoadSensor,
        inquirer: BrokerRpc,
        seen: Callable[[], list[SeenMember]],
    ) -> None:
        """`links` are the links with back ends; None on a back end.

        `seen` returns all members with this machine; none outside of a cluster.
        """
        self._settings = settings
        self._engine = engine
        self._links = links
        self._sensor = sensor
        self._inquirer = inquirer
        self._seen = seen
        inquirer.answerers[AskNodes] = self._of_broker

    @handles(AskNodes)
    async def _nodes(self, asked: RequestContext, body: AskNodes) -> NodeTable:
        if self._links is None:
            return NodeTable((self._own_row(),))
        reply = await self._inquirer.ask(body, NodeTable)
        if reply.problem is not None:
            raise reply.problem
        near = reply.answer
        if near is None:
            own = [self._own_row()] if self._settings.role.has_node else []
            note = f"{reply.missing}; of other machines only their membership is known"
            near = NodeTable(tuple(own), note)
        words = await self._inquirer.clusters.ask(body, NodeTable)
        return self._with_members(_together(near, words))

    # --- as the broker ---------------------------------------------------------------------------

    def _of_broker(self, body: AskNodes, now: Instant) -> NodeTable:
        """Return the machines that have reported to the broker, and all back ends."""
        links, broker = self._back_ends(), self._engine.machine.broker
        rows = {}
        for name, view in broker.state.machines.items():
            heard_s = broker.sessions.last_contact_ago_s(name, now.steady_s)
            is_broker = name == self._settings.home
            row = self._row(view, now)
            rows[name] = replace(row, heard_s=heard_s, is_broker=is_broker)
        for name in links.known.names():
            if name not in rows:
                rows[name] = self._unheard_row(name)
        return NodeTable(_by_name(rows))

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

    def _row(self, view: MachineView, now: Instant) -> NodeRow:
        calendar = view.calendar
        failing = self._engine.machine.broker.failing_on(view.name)
        return node_row(
            view.name,
            view.unavailable or view.back_off.reason(now.steady_s),
            (calendar.capacity, calendar.free),
            (view.load, view.foreign_load),
            view.speed,
            sum(1 for key in calendar if isinstance(key, AttemptId)),
            self._link(view.name, is_away=view.is_away),
            (*given_beyond(view), *failing, *self._seen_of(view.name)),
        )

    def _seen_of(self, name: str) -> list[str]:
        """Return what the home here observed of a machine that runs its tasks."""
        return self._engine.machine.home.stats.differences(name)

    def _unheard_row(self, name: str) -> NodeRow:
        """Return the row of a back end that has reported nothing to this daemon."""
        link = self._link(name, is_away=True)
        return node_row(name, None, (NOTHING, NOTHING), (0.0, 0.0), 1.0, 0, link)

    def _link(self, name: str, *, is_away: bool) -> str:
        """Return how the broker reaches a machine; links over a network open on demand."""
        if name == self._settings.home:
            return HERE
        links = self._back_ends()
        if links.is_up(name):
            return UP
        is_back_end = name in links.known.names()
        return DOWN if is_back_end or is_away else UP

    # --- as whoever was asked --------------------------------------------------------------------

    def _with_members(self, table: NodeTable) -> NodeTable:
        """Return the broker's `table` with the membership and observations known here.

        Each home observes machines by its own tasks, and the broker knows its own home's alone.
        """
        rows = {row.name: row for row in table.rows}
        near = self._settings.configuration.cluster.name or ""
        home, broker = self._settings.home, self._engine.machine.broker_at
        for member, heard_s in self._seen():
            name, state = member.name, member.state
            is_near = member.cluster_name == near
            row = rows.get(name) or _unreported(name, is_near=is_near)
            link = HERE if name == home else UP if row.link == HERE else row.link
            heard = [each for each in (row.heard_s, heard_s) if each is not None]
            rows[name] = replace(
                row,
                link=link,
                member=state,
                cluster=member.cluster_called,
                is_broker=name == broker or (row.is_broker and not is_near),
                differs=tuple(dict.fromkeys((*row.differs, *self._seen_of(name)))),
                heard_s=None if name == home else min(heard, default=None),
            )
            if state in GONE:
                rows[name] = replace(rows[name], state=AWAY, link=DOWN, reason=GONE[state])
        return NodeTable(_by_name(rows), table.note)

    # --- removing --------------------------------------------------------------------------------

    @handles(Forget)
    async def _forget(self, asked: RequestContext, body: Forget) -> Done:
        name, home = body.node, self._settings.home
        if self._links is None:
            raise Refused(
                "no-front-end",
                f"{home} is a back end, which lists no other machine",
                "run the command for its front end, with --state and the front end's state "
                "directory",
            )
        if name == home:
            raise Refused(
                "own-machine",
                f"{name} is this machine",
                "to stop it use 'iriai down'; to remove it, ask another machine",
            )
        self._check_is_no_member(name)
        known = self._known()
        if name not in known:
            broker = self._engine.machine.broker_at
            raise NotFound(
                "no-such-machine",
                f"{name} is not on the list of {home}",
                f"its list has: {', '.join(known) or 'none'}"
                + (
                    f"; in this cluster the broker lists the machines: ask {broker}"
                    * (broker != home)
                ),
            )
        if self._links.is_up(name):
            raise Refused(
                "linked",
                f"{name} is online, and linked",
                "only a machine that is gone for good can be removed; use 'iriai drain' to "
                "keep one from starting tasks",
            )
        self._engine.machine.forget(name, self._engine.now)
        self._links.forget(name)
        return Done()

    def _back_ends(self) -> LocalLinks:
        """Return the links with back ends; a back end has none, and is asked for its own row."""
        if self._links is None:
            raise RuntimeError("a back end has no list of machines")
        return self._links

    def _known(self) -> list[str]:
        """Return the back ends, and the broker's other machines if it is here."""
        back_ends = self._back_ends().known.names()
        machine, home = self._engine.machine, self._settings.home
        told = list(machine.broker.state.machines) if machine.broker_at == home else []
        return [name for name in dict.fromkeys((*back_ends, *told)) if name != home]

    def _check_is_no_member(self, name: str) -> None:
        """Raise `Refused` if `name` is a member, which only the membership can remove."""
        state = next((each.member for each in self._seen() if each.member.name == name), None)
        if state is None:
            return
        if state.is_present:
            raise Refused(
                "member",
                f"{name} is a member of the cluster, and {state.state}",
                "take it out with 'iriai leave' there, or remove it with 'iriai eject'",
            )
        raise Refused(
            "member",
            f"{name} is a member of the cluster, and {state.state}: members remove it by "
            "themselves, six hours after it last published something",
            f"nothing is to do; 'iriai eject {name}' refuses it if it comes back",
        )


def _together(near: NodeTable, words: list[ClusterReply[NodeTable]]) -> NodeTable:
    """Return the machines of the own cluster and of all clusters whose brokers answered."""
    rows = [row for word in words if word.answer is not None for row in word.answer.rows]
    notes = (near.note, missing_text(words))
    return NodeTable((*rows, *near.rows), "; ".join(note for note in notes if note))


def _by_name(rows: dict[str, NodeRow]) -> tuple[NodeRow, ...]:
    return tuple(rows[name] for name in sorted(rows))


def _unreported(name: str, *, is_near: bool) -> NodeRow:
    """Return the row of a member whose resources are unknown here."""
    reason = "" if is_near else "of another cluster, whose broker sent nothing about it"
    row = node_row(name, None, (NOTHING, NOTHING), (0.0, 0.0), 1.0, 0, UP)
    return replace(row, state=UNKNOWN, reason=reason)


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
    """Return one line of `iriai nodes`; `room` is (all, free), `load` (all, foreign)."""
    state = UP
    if link == DOWN:
        state = AWAY
    elif unavailable is not None:
        state = DRAINED if unavailable.rule is Rule.DRAINED else UNAVAILABLE
    reason = unavailable.had if unavailable else ""
    capacity, free = room
    left = dict(free.named)
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
        named=tuple((name, there, left.get(name, 0)) for name, there in capacity.named) or UNSET,
    )


def given_beyond(view: MachineView) -> tuple[str, ...]:
    """Return a sentence for each resource that exceeds what the machine measured."""
    found = attributes_of(view.ad)
    given = view.calendar.capacity
    memory_mib, cpus = found.get("DetectedMemory"), found.get("DetectedCpus")
    words = []
    if isinstance(memory_mib, int) and given.memory_bytes // MIB > memory_mib > 0:
        there, more = format_size(memory_mib * MIB), format_size(given.memory_bytes)
        words.append(f"it offers {more} of memory, and has {there}")
    if isinstance(cpus, int) and given.cpus > cpus > 0:
        words.append(f"it offers {given.cpus} CPUs, and has {cpus}")
    return tuple(words)
