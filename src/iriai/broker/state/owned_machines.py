"""Which of machines that are alike a task gets, by how long their owners stay away.

docs/spec/016, section 5b. A task gets the machine whose owner is away just long enough for it, and
leaves the others to longer ones; where none is, the one whose owner is away longest.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from iriai.broker.machines.machine_view import MachineView

LOAD_ALIKE = 0.1
"""Machines are alike if their loads for each cpu, relative to speed, differ by no more: those of
idle desks waver by less."""


def just_enough(
    able: Sequence[MachineView], stay_s: float | None, now_s: float
) -> MachineView | None:
    """Return the machine for a task that stays so long (None: nobody knows); None: there is none.

    Machines without an owner count as idle for ever. Of two that are as good, the first in the
    usual order is taken.
    """
    if len(able) <= 1:
        return able[0] if able else None
    ranks = sorted((view.rank(), view.idle_until_s) for view in able)
    most = ranks[0][0].load + LOAD_ALIKE
    alike = [(rank, max(now_s, until_s)) for rank, until_s in ranks if rank.load <= most]
    end_s = now_s + (inf if stay_s is None else stay_s)
    enough = [until_s for _, until_s in alike if until_s >= end_s]
    wanted_s = min(enough) if enough else max(until_s for _, until_s in alike)
    name = next(rank.name for rank, until_s in alike if until_s == wanted_s)
    return next(view for view in able if view.name == name)
