"""Machines with many reservations, and how long the search for nodes takes there."""

from __future__ import annotations

import gc
import time
from math import inf
from random import Random

from harness.options import Options
from harness.report import Figures, percentile, progress
from iriai.model.ids import ReservationId
from iriai.model.resources import Resources
from iriai.policy.placement.booking_search import earliest_of
from iriai.policy.placement.bookings import BookedSpan
from iriai.policy.placement.calendar import Calendar

MACHINES, RESERVATIONS, NODES, ASKED, QUESTIONS = 10_000, 10_000, 8, 512, 100
QUICK_MACHINES, QUICK_RESERVATIONS, QUICK_ASKED, QUICK_QUESTIONS = 100, 100, 8, 10
HOUR_S, DAY_S = 3_600.0, 86_400.0
LENGTH_S = 4 * HOUR_S
HORIZONS_S = {"sparse": 14 * DAY_S, "dense": 2 * DAY_S}
LENGTHS_S = (HOUR_S, 4 * HOUR_S, 12 * HOUR_S, 24 * HOUR_S)
CPUS = 16
SEED = 1


class BookedSite:
    """Machines with reservations on them, the same each time."""

    def __init__(self, machines: int, reservations: int, horizon_s: float, cpus: int) -> None:
        self.dice = Random(SEED)
        self.horizon_s = horizon_s
        self.booked = Resources(cpus)
        """Of each machine, by a reservation."""
        self.calendars: dict[str, Calendar[int]] = {
            f"node{number:05}": Calendar(Resources(CPUS)) for number in range(machines)
        }
        self._names = list(self.calendars)
        self._spans: dict[str, list[BookedSpan]] = {name: [] for name in self._names}
        self._made = 0
        for _ in range(reservations):
            self.reserve()
        for name in self._names:
            self.settle(name)

    def reserve(self) -> None:
        """Make a reservation at a random time on nodes that are free then."""
        self._made += 1
        number = ReservationId("ume", self._made)
        start_s = self.dice.random() * (self.horizon_s - LENGTH_S)
        nodes: list[str] = []
        while len(nodes) < NODES:
            name = self.dice.choice(self._names)
            spans = self._spans[name]
            if all(abs(span.start_s - start_s) >= LENGTH_S for span in spans):
                spans.append(BookedSpan(number, start_s, start_s + LENGTH_S, self.booked))
                nodes.append(name)
            elif self.dice.random() < 0.01:
                start_s = self.dice.random() * (self.horizon_s - LENGTH_S)
                for each in nodes:
                    self._spans[each].pop()
                nodes.clear()

    def settle(self, name: str) -> None:
        """Let the calendar of a machine have what is booked."""
        self.calendars[name].set_bookings(self._spans[name])


def search(site: BookedSite, cpus: int, asked: int, questions: int) -> list[float]:
    """Return milliseconds of each search for nodes that give so many cpus."""
    wanted, names = Resources(cpus), list(site.calendars)
    found = []
    for _ in range(questions):
        from_s = site.dice.random() * site.horizon_s
        length_s = site.dice.choice(LENGTHS_S)

        def run_from(
            name: str, start_s: float, length_s: float = length_s
        ) -> tuple[float, float] | None:
            return site.calendars[name].profile().run_from(wanted, length_s, start_s)

        began = time.process_time()
        start = earliest_of(names, asked, run_from, length_s, from_s, inf)
        found.append(1e3 * (time.process_time() - began))
        assert start is not None
        assert len(start[1]) == asked
    return found


def earliest_figures(options: Options) -> tuple[dict[str, object], dict[str, object]]:
    """Return the times of the searches on both sites, and what was searched."""
    machines = options.tasks(MACHINES, QUICK_MACHINES)
    reservations = options.tasks(RESERVATIONS, QUICK_RESERVATIONS)
    asked = options.tasks(ASKED, QUICK_ASKED)
    questions = options.tasks(QUESTIONS, QUICK_QUESTIONS)
    figures = {(kind, load): Figures(2) for kind in ("whole", "parts") for load in HORIZONS_S}
    for run in range(options.runs):
        for load, horizon_s in HORIZONS_S.items():
            progress(f"earliest start, {load}: run {run + 1} of {options.runs}")
            gc.collect()
            for kind, taken, cpus in (("whole", CPUS, CPUS), ("parts", CPUS // 2, CPUS // 2 + 1)):
                site = BookedSite(machines, reservations, horizon_s, taken)
                search(site, cpus, asked, 1)  # the profiles of all machines are made once
                samples = search(site, cpus, asked, questions)
                figures[kind, load].add("earliest_p50_ms", percentile(samples, 50))
                figures[kind, load].add("earliest_p99_ms", percentile(samples, 99))
    found: dict[str, object] = {
        kind: {load: figures[kind, load].answer() for load in HORIZONS_S}
        for kind in ("whole", "parts")
    }
    settings: dict[str, object] = {
        "machines": machines,
        "reservations": reservations,
        "asked": asked,
        "questions": questions,
    }
    return found, settings
