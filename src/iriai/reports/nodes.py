"""The list of machines: the broker's view of them, their membership, and who may be removed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from msgspec import UNSET
from msgspec.structs import replace

from iriai.broker.machines.machine_view import MachineView
from iriai.cluster.broker_questions import ClusterReply, missing_text
from iriai.machine.core import Machine
from iriai.model.ad import MIB, attributes_of
from iriai.model.ids import AttemptId
from iriai.model.instant import Instant
from iriai.model.problem import NotFound, Refused
from iriai.model.reason import Reason, Rule
from iriai.model.reservable import UNLIMITED, Reservable
from iriai.model.resources import NOTHING, Resources
from iriai.model.units import format_size
from iriai.protocol.messages.effects import Part
from iriai.protocol.messages.members import MemberState
from iriai.wire.machines import NodeRow, NodeTable

if TYPE_CHECKING:
    from iriai.cluster.member import SeenMember

HERE, UP, DOWN = "here", "up", "down"
"""How a machine is reached."""
DRAINED, AWAY, UNAVAILABLE, UNKNOWN = "drained", "away", "unavailable", "unknown"
"""States of a machine that takes nothing, or of which nothing is known; else it is `up` as well."""
GONE = {
    MemberState.DEAD: "it does not answer",
    MemberState.LEFT: "it left the cluster",
}


def node_row(
    name: str,
    link: str,
    unavailable: Reason | None = None,
    room: tuple[Resources, Resources] = (NOTHING, NOTHING),
    load: tuple[float, float] = (0.0, 0.0),
    speed: float = 1.0,
    tasks: int = 0,
    differs: tuple[str, ...] = (),
    reservable: Reservable = UNLIMITED,
) -> NodeRow:
    """Return one line of `iriai nodes`; `room` is (all, free), `load` (all, foreign)."""
    state, reason = UP, unavailable.had if unavailable else ""
    if link == DOWN:
        state, reason = AWAY, reason or "it has no link"
    elif unavailable is not None:
        state = DRAINED if unavailable.rule is Rule.DRAINED else UNAVAILABLE
    capacity, free = room
    left = dict(free.named)
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
        *load,
        speed,
        tasks,
        link,
        differs,
        named=tuple((name, there, left.get(name, 0)) for name, there in capacity.named) or UNSET,
        reservable=reservable.part,
        reservable_by=reservable.by,
    )


def own_table(machine: Machine, load: tuple[float, float], missing: str = "") -> NodeTable:
    """Return this machine alone; `missing` says why the broker did not list the others."""
    note = f"{missing}; of other machines only their membership is known" if missing else ""
    if Part.NODE not in machine.parts:
        return NodeTable((), note)
    node = machine.node
    room = node.settings.capacity, node.calendar.free
    speed, tasks, reservable = node.settings.speed, len(node.running()), node.settings.reservable
    state = HERE, node.unavailable()
    row = node_row(machine.name, *state, room, load, speed, tasks, reservable=reservable)
    return NodeTable((row,), note)


def broker_table(machine: Machine, now: Instant) -> NodeTable:
    """Return the machines that have reported to the broker here."""
    broker, rows = machine.broker, {}
    for name, view in broker.state.machines.items():
        link = HERE if name == machine.name else DOWN if view.is_away else UP
        calendar = view.calendar
        row = node_row(
            name,
            link,
            view.unavailable or view.back_off.reason(now.steady_s),
            (calendar.capacity, calendar.free),
            (view.load, view.foreign_load),
            view.speed,
            sum(1 for key in calendar if isinstance(key, AttemptId)),
            (*given_beyond(view), *broker.failing_on(name), *machine.home.stats.differences(name)),
            view.reservable,
        )
        heard_s = broker.sessions.last_contact_ago_s(name, now.steady_s)
        rows[name] = replace(row, heard_s=heard_s, is_broker=link == HERE)
    return NodeTable(_by_name(rows))


def tables_of_site(near: NodeTable, others: list[ClusterReply[NodeTable]]) -> NodeTable:
    """Return the machines of the own cluster and of all clusters whose brokers answered."""
    rows = [row for other in others if other.answer is not None for row in other.answer.rows]
    return NodeTable(
        (*rows, *near.rows), "; ".join(filter(None, (near.note, missing_text(others))))
    )


def with_members(
    table: NodeTable, machine: Machine, seen: Iterable[SeenMember], cluster: str
) -> NodeTable:
    """Return the broker's `table` with the membership and observations known here.

    Each home observes machines by its own tasks, and the broker knows its own home's alone.
    `cluster` is the name of this machine's cluster in a site of several, or empty.
    """
    rows = {row.name: row for row in table.rows}
    for member, heard_s in seen:
        name, state = member.name, member.state
        if Part.NODE not in member.parts and name not in rows:
            continue
        is_own, is_near = name == machine.name, member.cluster_name == cluster
        row = rows.get(name) or _unreported(name, is_near=is_near)
        link = HERE if is_own else UP if row.link == HERE else row.link
        heard = [each for each in (row.heard_s, heard_s) if each is not None]
        observed = machine.home.stats.differences(name)
        rows[name] = replace(
            row,
            link=link,
            member=state,
            cluster=member.cluster_called,
            is_broker=name == machine.broker_at or (row.is_broker and not is_near),
            differs=tuple(dict.fromkeys((*row.differs, *observed))),
            heard_s=None if is_own else min(heard, default=None),
        )
        if state in GONE:
            rows[name] = replace(rows[name], state=AWAY, link=DOWN, reason=GONE[state])
    return NodeTable(_by_name(rows), table.note)


def check_removable(name: str, machine: Machine, seen: Iterable[SeenMember]) -> None:
    """Raise a `Problem` if `name` is not a machine that the broker here may take off its list."""
    if name == machine.name:
        raise Refused(
            "own-machine",
            f"{name} is this machine",
            "to stop it use 'iriai down'; to remove it, ask another machine",
        )
    for member, _ in seen:
        if member.name == name:
            raise _is_member(name, member.state, is_present=member.is_present)
    is_broker = machine.broker_at == machine.name
    told = machine.broker.state.machines if is_broker else ()
    known = [each for each in told if each != machine.name]
    if name not in known:
        other = f"; in this cluster the broker lists the machines: ask {machine.broker_at}"
        raise NotFound(
            "no-such-machine",
            f"{name} is not on the list of {machine.name}",
            f"its list has: {', '.join(known) or 'none'}{'' if is_broker else other}",
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


def _is_member(name: str, state: MemberState, *, is_present: bool) -> Refused:
    """Return the refusal of a member, which only the membership can remove."""
    words = f"{name} is a member of the cluster, and {state}"
    if is_present:
        hint = "take it out with 'iriai leave' there, or remove it with 'iriai eject'"
        return Refused("member", words, hint)
    return Refused(
        "member",
        f"{words}: members remove it by themselves, six hours after it last published something",
        f"nothing is to do; after 'iriai eject {name}', which refuses it if it comes back, it can "
        "be removed at once",
    )


def _by_name(rows: Mapping[str, NodeRow]) -> tuple[NodeRow, ...]:
    return tuple(rows[name] for name in sorted(rows))


def _unreported(name: str, *, is_near: bool) -> NodeRow:
    """Return the row of a member whose resources are unknown here."""
    reason = "" if is_near else "of another cluster, whose broker sent nothing about it"
    return replace(node_row(name, UP), state=UNKNOWN, reason=reason)
