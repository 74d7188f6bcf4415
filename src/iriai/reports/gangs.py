"""The matrix of gangs as clients are told of it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence

from iriai.broker.state.preemptible_task import PreemptibleTask, Standing
from iriai.config.reader import Configuration
from iriai.machine.core import Machine
from iriai.model.ids import AttemptId
from iriai.model.suspension import SuspendReason
from iriai.protocol.messages.effects import Part
from iriai.wire.reports import GangMatrix, GangTable, MachineSlices, StandingTask


def known_gangs(machine: Machine, configuration: Configuration) -> GangTable:
    """Return what takes turns and what stands, as the broker here knows; without one, nothing.

    A match is left out until its machine has granted it.
    """
    rows_of: defaultdict[str, list[list[str]]] = defaultdict(list)
    always_of: defaultdict[str, list[str]] = defaultdict(list)
    standing = []
    tasks = machine.broker.state.preemptible.tasks if Part.BROKER in machine.parts else ()
    for task in sorted(tasks, key=lambda each: each.precedence):
        name = next((str(key.task) for key in task.seats if isinstance(key, AttemptId)), None)
        if name is None:
            continue
        if task.standing is Standing.PREEMPTED:
            standing.append(_standing(name, task))
            continue
        for at in task.cpus_by_machine():
            if not task.is_gang:
                always_of[at].append(name)
                continue
            rows = rows_of[at]
            rows += [[] for _ in range(len(rows), task.turn.rows)]
            for row in range(task.turn.rows):
                if task.turn.mask >> row & 1:
                    rows[row].append(name)
    gang = configuration.gang
    matrix = gang_matrix(rows_of, always_of, rows_max=gang.rows_max, quantum_s=gang.quantum_s)
    return GangTable(matrix, standing=tuple(standing))


def _standing(name: str, task: PreemptibleTask) -> StandingTask:
    reason = SuspendReason.STOPPED_QUEUE if task.is_stopped else SuspendReason.HIGHER_QUEUE
    machines = dict.fromkeys(seat.view.name for seat in task.seats.values())
    return StandingTask(name, task.queue, reason.value, tuple(sorted(machines, key=_by_number)))


def gang_matrix(
    rows_of: Mapping[str, Sequence[Sequence[str]]],
    always_of: Mapping[str, Sequence[str]],
    *,
    rows_max: int,
    quantum_s: float,
) -> GangMatrix:
    """Return the matrix: of each machine the tasks of each row, and those of all rows.

    Machines are in the order of their names, numbers in these by value; idle rows at the end of a
    machine's are left out.
    """
    names = sorted(rows_of.keys() | always_of.keys(), key=_by_number)
    columns = (
        MachineSlices(name, _used(rows_of.get(name, ())), tuple(always_of.get(name, ())))
        for name in names
    )
    return GangMatrix(tuple(columns), rows_max, quantum_s)


def _used(rows: Sequence[Sequence[str]]) -> tuple[tuple[str, ...], ...]:
    count = max((place for place, row in enumerate(rows, start=1) if row), default=0)
    return tuple(map(tuple, rows[:count]))


def _by_number(name: str) -> tuple[list[tuple[int, str]], str]:
    """Return the order of a name: `n2` before `n10`; the name itself, since `n02` is not `n2`."""
    parts = re.findall(r"[0-9]+|[^0-9]+", name)
    return [(int(part), "") if part[0] in "0123456789" else (-1, part) for part in parts], name
