"""What machines are told of the turns of their claims: one message for each that changed."""

from __future__ import annotations

from msgspec.structs import replace

from iriai.broker.machines.machine_view import MachineView
from iriai.broker.state.preemptible_task import PreemptibleTask
from iriai.broker.state.state import BrokerState
from iriai.model.ids import AttemptId
from iriai.model.turn import ALWAYS, RowSet
from iriai.protocol.messages.effects import Part, Send
from iriai.protocol.messages.scheduling import Capability, ClaimTurn, Cycle, MatchTurn


def cycles(state: BrokerState) -> list[Send]:
    """Return the messages to machines whose claims have other turns than they were told."""
    claims = state.preemptible
    claims.settle_machines()
    sends = []
    for name in claims.to_tell:
        view = state.machines.get(name)
        if view is None or view.is_away or not view.mints:
            continue  # it reports whole when it is back, and is told then
        told = view.told_turns
        cycle = _cycle(state, view)
        if told is None or replace(told, number=cycle.number) != cycle:
            view.cycle, view.told_turns = cycle.number, cycle
            sends.append(Send(name, Part.NODE, cycle))
    claims.to_tell.clear()
    return sends


def _cycle(state: BrokerState, view: MachineView) -> Cycle:
    known = state.preemptible.by_machine.get(view.name, {})
    turns, matched = [], []
    for key, task in sorted(known.items(), key=lambda item: item[1].precedence):
        turn, row = task.turn, _row(task)
        if turn == ALWAYS and not row:
            continue
        if isinstance(key, AttemptId):
            turns.append(ClaimTurn(key, turn, row, task.is_stopped))
        elif isinstance(key, Capability):
            matched.append(MatchTurn(key, turn, row))
    quantum_s = state.settings.configuration.gang.quantum_s
    return Cycle(view.cycle + 1, quantum_s, tuple(turns), tuple(matched))


def _row(task: PreemptibleTask) -> int:
    return task.row if task.is_gang and task.turn != RowSet(1, 0) else 0
