"""Urgency now and then, and always (paper 000, section 5.2.3): an advance that is paid back.

Four users always have work. One of them hands in a job now and then that is to come before all her
others: with `-p 5`; or, to compare, with so little more than 1 that it only comes first of hers. Or
she says `-p 5` for everything. Rights and jobs are alike, so that `paper000` does the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from statistics import fmean

from experiments.panel import Panel
from experiments.shares import RUN_S
from experiments.workplace import Workplace
from iriai.config.reader import Configuration
from iriai.config.sections import OrderSection

CPUS = 2
USER, OTHERS = "ann", ("bob", "cleo", "dan")
URGENT = 5.0
FIRST_OF_HERS = 1.001
EACH_S = 1_613.0
"""Between two jobs that matter: one in eight of hers."""
TASKS = 2_000
"""More than are run."""
WARM_UP_S, UNTIL_S = 5_000.0, 105_000.0
CASES = {
    "never": (1.0, FIRST_OF_HERS),
    "now and then": (1.0, URGENT),
    "always": (URGENT, None),
}
"""The urgency of her usual jobs, and of those that matter; None: there are none."""


def run(seeds: Sequence[int]) -> tuple[Panel, ...]:
    """Return the mean wait of jobs that matter and the user's share, by habit."""
    waits: list[tuple[float | None]] = []
    parts: list[tuple[float]] = []
    for usual, matters in CASES.values():
        got = [_one(usual, matters, seed) for seed in seeds]
        waits.append((None if matters is None else fmean(wait_s for wait_s, _ in got),))
        parts.append((100 * fmean(part for _, part in got),))
    rows = tuple(CASES)
    return (
        Panel("mean wait of a job that matters", "s", ("ann",), rows, tuple(waits)),
        Panel("share of the machine", "%", ("ann",), rows, tuple(parts), (25.0,)),
    )


def _one(usual: float, matters: float | None, seed: int) -> tuple[float, float]:
    """Return the mean wait of jobs that matter (0 without any) and the user's share."""
    configuration = Configuration(order=OrderSection(offpeak_factor=1.0))
    place = Workplace(CPUS, configuration, seed)
    for user in OTHERS:
        place.submit(user, RUN_S, TASKS)
    place.submit(USER, RUN_S, TASKS, usual)
    first: set[int] = set()
    if matters is not None:
        at_s = WARM_UP_S
        while at_s < UNTIL_S - EACH_S:
            place.world.agenda.at(at_s, partial(_matters, place, matters, first))
            at_s += EACH_S
    place.world.run_until(UNTIL_S)
    counted = [each for each in place.processes if each.started_s >= WARM_UP_S]
    mine = [each for each in counted if each.spec.user == USER]
    waits_s = [place.wait_s(each) for each in mine if each.attempt.number in first]
    return fmean(waits_s) if waits_s else 0.0, len(mine) / len(counted)


def _matters(place: Workplace, urgency: float, first: set[int]) -> None:
    first.add(place.submit(USER, RUN_S, urgency=urgency))
