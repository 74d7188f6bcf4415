"""The matrix of gangs as clients are told of it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from iriai.wire.reports import GangMatrix, MachineSlices


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
