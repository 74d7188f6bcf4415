"""Wall clocks that are set in a scenario, while machines keep bookings: forward, and back.

docs/spec/017, section 3, has what a step does. Once the faults stop all clocks are right again.
"""

from __future__ import annotations

from iriai.protocol.messages.effects import Part
from iriai.sim.faults.actions import Happening
from iriai.sim.faults.reservations import ASKED_UNTIL_S, deaths, deaths_deciding, drains
from iriai.sim.world.machine_model import MachinePlan
from iriai.sim.world.rng import Rng

STEPS_CHANCE = 0.4
"""The chance that clocks are set in a seed in which users reserve."""
STEPS_S = ((1.0, 5.0), (10.0, 120.0), (300.0, 3_500.0))
"""A machine whose clock is an hour off counts nothing for the ledger of others."""


def broken_reserving(
    seed: int, rng: Rng, plans: list[MachinePlan], begin_s: float
) -> list[Happening]:
    """Return daemons that die at a step of a reservation, lost nodes, and clocks that are set."""
    names = [plan.name for plan in plans]
    homes = [plan.name for plan in plans if Part.HOME in plan.parts]
    nodes = [plan.name for plan in plans if Part.NODE in plan.parts]
    steps = Rng(seed, "clock-steps")
    happenings = deaths(rng, names, begin_s)
    happenings += deaths_deciding(Rng(seed, "deciding"), homes, nodes, begin_s)
    happenings += drains(Rng(seed, "lost-nodes"), nodes, begin_s)
    if not steps.chance(STEPS_CHANCE):
        return happenings
    return happenings + [_step(steps, names, begin_s) for _ in range(1 + steps.below(4))]


def _step(rng: Rng, names: list[str], begin_s: float) -> Happening:
    by_s = rng.between(*rng.pick(STEPS_S)) * rng.pick((1.0, -1.0))
    at_s = rng.between(begin_s, ASKED_UNTIL_S)
    return Happening(at_s, "clock-steps", rng.pick(names), by_s)
