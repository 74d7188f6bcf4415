"""Small mistakes about what gives way and takes turns; each is found where queues have modes."""

from __future__ import annotations

from msgspec.structs import replace

from iriai.broker.scheduling.task_starts import TaskStarts
from iriai.broker.state import gang_rows
from iriai.broker.state.preemptible_claims import PreemptibleClaims
from iriai.broker.state.preemptible_task import PreemptibleTask
from iriai.model.claim import Claim
from iriai.model.turn import NEVER, RowSet
from iriai.node.metering import HeldClaim
from iriai.node.suspending.cycle import NodeCycle
from iriai.policy.placement import slice_matrix
from iriai.policy.placement.slice_matrix import GangSlot
from iriai.protocol.messages.effects import OrderCycle, Send
from iriai.protocol.messages.scheduling import Cycle
from tests.mutants.mutants import (
    Patch,
    around,
    effects,
    instead,
    lost_effect,
    lost_message,
)

EVERY_QUEUE = range(64)


def _nobody_new(claims, _level, _starting):
    claims.has_news = False


def _only_for_levels(whole, claims, level, _starting):
    whole(claims, level, EVERY_QUEUE)


def _first_seats_alone(effect):
    """All other seats are told that they run."""
    if type(effect) is not Send or type(effect.message) is not Cycle:
        return effect
    turns = tuple(
        each for each in effect.message.turns if each.attempt.rank == 0 or each.turn != NEVER
    )
    return replace(effect, message=replace(effect.message, turns=turns))


def _shifted_on_one(effect):
    """A machine is told the next row."""
    is_cycle = type(effect) is Send and type(effect.message) is Cycle
    if not is_cycle or effect.machine != "b1":
        return effect
    turns = tuple(each._replace(turn=_shifted(each.turn)) for each in effect.message.turns)
    return replace(effect, message=replace(effect.message, turns=turns))


def _shifted(turn: RowSet) -> RowSet:
    high = turn.mask >> (turn.rows - 1)
    return turn._replace(mask=(turn.mask << 1 | high) & ((1 << turn.rows) - 1))


def _in_every_row(whole, gangs, rooms, rows_max):
    return {
        key: slot if slot.turn == NEVER else GangSlot(slot.row, _whole(slot.turn.rows))
        for key, slot in whole(gangs, rooms, rows_max).items()
    }


def _whole(rows: int) -> RowSet:
    return RowSet(rows, (1 << rows) - 1)


def _unclipped(cycle, told):
    live = cycle._claims.by_attempt
    return {a: each.turn for a, each in told.items() if a in live and live[a].end is None}


def _any_number(whole, cycle, told, now):
    cycle._report.cycle = min(cycle._report.cycle, told.number - 1)
    whole(cycle, told, now)


def _filling_all(monkeypatch) -> None:
    whole = slice_matrix.slots_of_linked
    monkeypatch.setattr(gang_rows, "slots_of_linked", lambda *args: _in_every_row(whole, *args))


def _known(cycle) -> None:
    if not cycle._report.has_clock:
        cycle._report.has_clock = cycle._report.is_due = True


TURNS: dict[str, Patch] = {
    # --- broker
    "nothing stands aside for a higher queue": instead(
        PreemptibleClaims, "stand_aside", _nobody_new
    ),
    "what runs in a queue that is stopped goes on": around(
        PreemptibleClaims, "stand_aside", _only_for_levels
    ),
    "what stands never takes its cpus again": instead(
        TaskStarts, "_take_back", lambda starts, _level: starts._standing.clear()
    ),
    "the lowest take their cpus first": instead(
        PreemptibleTask, "precedence", property(lambda task: (-task.level, task.order))
    ),
    "what stands takes its cpus before higher queues start": around(
        TaskStarts, "_take_back", lambda whole, starts, _level: whole(starts, 64)
    ),
    "a gang is in a row whatever others there have": instead(
        slice_matrix, "_fits", lambda *_: True
    ),
    "gangs run in all rows whatever others there have": _filling_all,
    "what stands never counts in a higher queue": instead(
        PreemptibleClaims, "age", lambda claims, now_s: setattr(claims, "_now_s", now_s)
    ),
    "machines are never told who stands": lost_message(Cycle),
    "one seat alone of a task is told that it stands": effects(_first_seats_alone),
    "one machine is told the next row": effects(_shifted_on_one),
    # --- node
    "a machine frees no cpus of what stands": instead(
        Claim, "kept", property(lambda claim: claim.resources)
    ),
    "a machine believes each turn that it is told": instead(NodeCycle, "_clipped", _unclipped),
    "a machine takes an old word for a new one": around(NodeCycle, "_told", _any_number),
    "the launcher is never told whose turn it is": lost_effect(OrderCycle),
    "slices begin by the clock of each machine": instead(
        NodeCycle,
        "_row_0_s",
        lambda cycle, rows, now: now.steady_s - now.wall_s % (cycle.quantum_s * max(1, rows)),
    ),
    "a machine without the broker's clock takes part": instead(NodeCycle, "see_to_clock", _known),
    "the time of others' turns is charged": instead(HeldClaim, "_out_of_turn_s", lambda *_: 0.0),
}
