"""Quiet hours that are cheap, and users who react to it (paper 000, section 5.4).

Ten users hand in the day's work between nine and five. Each has a price at which holding work back
is worth it: a tenth of them reacts to a discount of 5 %, another from 15 % on, and so on. Whoever
reacts looks every ten minutes whether it is off-peak, hands in one job when it is, and what is left
at seven in the morning.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from statistics import fmean

from experiments.panel import Panel
from experiments.shares import CPUS
from experiments.workplace import Workplace
from iriai.config.reader import Configuration
from iriai.config.sections import OrderSection
from iriai.protocol.messages.effects import LoadMeasured
from iriai.sim.world.rng import Rng

HOUR_S = 3600.0
DAY_S = 24 * HOUR_S
OPENS_S, CLOSES_S, GIVES_UP_S = 9 * HOUR_S, 17 * HOUR_S, 31 * HOUR_S
"""From midnight; the last is seven in the morning after."""
EVENING_S, MORNING_S = 20 * HOUR_S, 8 * HOUR_S
"""What lies between them is night."""
DAYS = 1
USERS = 10
JOBS = 20
"""Of each user, each day: half as much again than the machine can run from nine to five."""
RUN_S = 0.5 * HOUR_S
LOOK_S = 600.0
AT_ONCE = 1
"""The number of jobs held back that a user submits at a time."""
MEASURE_S = 60.0
FACTORS = (1.0, 0.8, 0.5, 0.2)


def run(seeds: Sequence[int]) -> tuple[Panel, ...]:
    """Return the work at night, the mean wait and the mean charge of a second, by factor."""
    got = [[_Days(factor, seed).measured() for seed in seeds] for factor in FACTORS]
    means = [tuple(fmean(column) for column in zip(*each, strict=True)) for each in got]
    rows = tuple(f"x {factor:g}" for factor in FACTORS)
    night, waits, price = zip(*means, strict=True)
    return (
        Panel("work done at night", "%", ("all",), rows, tuple((100 * n,) for n in night)),
        Panel(
            "mean wait of what is not held back",
            "s",
            ("all",),
            rows,
            tuple((w,) for w in waits),
        ),
        Panel("charged for a second of a cpu", "s", ("all",), rows, tuple((p,) for p in price)),
    )


class _Days:
    """A simulation of some days with one off-peak factor."""

    def __init__(self, factor: float, seed: int) -> None:
        configuration = Configuration(order=OrderSection(name="lottery", offpeak_factor=factor))
        self._place = Workplace(CPUS, configuration, seed)
        self._rng = Rng(seed, "submissions")
        self._held: dict[str, int] = {}
        """The number of jobs that each user holds back."""
        self._later: set[int] = set()
        """Jobs that were held back."""
        agenda = self._place.world.agenda
        for day in range(DAYS):
            for number in range(USERS):
                reacts = 1.0 - factor >= (number + 0.5) / USERS
                for _ in range(JOBS):
                    at_s = day * DAY_S + self._rng.between(OPENS_S, CLOSES_S)
                    hand_in = partial(self._work_comes, f"u{number}", reacts=reacts)
                    agenda.at(at_s, hand_in)
            agenda.at(day * DAY_S + GIVES_UP_S, self._give_up)
        self._measure()
        self._look()

    def measured(self) -> tuple[float, float, float]:
        """Return the part done at night, the mean wait (s) of other jobs, and the mean price."""
        place = self._place
        place.world.run_until((DAYS + 1) * DAY_S)
        processes = place.processes
        night_s = sum(_night_s(each.started_s, each.end_s) for each in processes)
        whole_s = sum(each.end_s - each.started_s for each in processes)
        waits_s = [
            place.wait_s(each) for each in processes if each.attempt.number not in self._later
        ]
        results = place.machine.store.results.values()
        return night_s / whole_s, fmean(waits_s), sum(r.charge_s for r in results) / whole_s

    def _work_comes(self, user: str, *, reacts: bool) -> None:
        if reacts and not self._is_offpeak():
            self._held[user] = self._held.get(user, 0) + 1
        else:
            self._place.submit(user, RUN_S)

    def _is_offpeak(self) -> bool:
        return self._place.machine.core.broker.offpeak.is_offpeak

    def _look(self) -> None:
        """Submit jobs that are held back if it is off-peak."""
        for user in list(self._held):
            if self._is_offpeak():
                self._hand_in(user, AT_ONCE)
        self._place.world.agenda.after(LOOK_S, self._look)

    def _give_up(self) -> None:
        for user in list(self._held):
            self._hand_in(user, self._held[user])

    def _hand_in(self, user: str, count: int) -> None:
        for _ in range(min(count, self._held[user])):
            self._later.add(self._place.submit(user, RUN_S))
            self._held[user] -= 1
        if not self._held[user]:
            del self._held[user]

    def _measure(self) -> None:
        """Report the machine's load: the number of tasks that run."""
        place = self._place
        running = float(len(place.machine.launcher.running))
        place.world.arrive(place.machine, LoadMeasured(running, 0.0))
        place.world.agenda.after(MEASURE_S, self._measure)


def _night_s(start_s: float, end_s: float) -> float:
    """Return the seconds of a span that lie in a night."""
    night_s, day = 0.0, int(start_s // DAY_S) - 1
    while day * DAY_S < end_s:
        from_s, until_s = day * DAY_S + EVENING_S, (day + 1) * DAY_S + MORNING_S
        night_s += max(0.0, min(end_s, until_s) - max(start_s, from_s))
        day += 1
    return night_s
