"""Reservations: how long the search for nodes takes where many are booked.

10,000 machines with 10,000 reservations of 8 nodes and 4 h each, on machines at random that were
free: within 14 days (`sparse`), and within 2 days, where two thirds of all time is booked
(`dense`). `earliest_p99_ms`: to find the first start at which 512 nodes are free together for 1 to
24 h, from a random moment on, and the nodes; times are of the processor. `whole`: of whole
machines, by an index that is kept; before each question a reservation of 8 nodes ends and another
one is made (`change_p99_ms`: to tell the index that). `parts`: half of each machine and a cpu more,
where reservations take half; by looking at all machines.
"""

from __future__ import annotations

import gc
import tempfile
import time
from pathlib import Path
from random import Random

from harness.options import read_options
from harness.report import Figures, finish, machine_facts, percentile, progress

from iriai.model.ids import ReservationId
from iriai.model.resources import Resources
from iriai.policy.placement.booking_search import GapIndex, earliest_start
from iriai.policy.placement.bookings import BookedSpan
from iriai.policy.placement.calendar import Calendar

MACHINES, RESERVATIONS, NODES, ASKED, QUESTIONS = 10_000, 10_000, 8, 512, 300
QUICK_MACHINES, QUICK_RESERVATIONS, QUICK_ASKED, QUICK_QUESTIONS = 100, 100, 8, 10
PARTS_QUESTIONS = 60
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
        self.nodes: dict[ReservationId, list[str]] = {}
        """The nodes of each reservation, the oldest first."""
        self._names = list(self.calendars)
        self._spans: dict[str, list[BookedSpan]] = {name: [] for name in self._names}
        self._made = 0
        for _ in range(reservations):
            self.reserve()
        for name in self._names:
            self.settle(name)

    def reserve(self) -> list[str]:
        """Make a reservation at a random time on nodes that are free then; return them."""
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
        self.nodes[number] = nodes
        return nodes

    def end_oldest(self) -> list[str]:
        """End the oldest reservation; return its nodes."""
        number = next(iter(self.nodes))
        nodes = self.nodes.pop(number)
        for name in nodes:
            spans = self._spans[name]
            spans[:] = [span for span in spans if span.reservation != number]
        return nodes

    def settle(self, name: str) -> None:
        """Let the calendar of a machine have what is booked."""
        self.calendars[name].set_bookings(self._spans[name])


def search_whole(site: BookedSite, asked: int, questions: int) -> dict[str, list[float]]:
    """Return milliseconds of each search for whole machines, and of each change before it."""
    index = GapIndex()
    for name, calendar in site.calendars.items():
        index.put(name, calendar)
    earliest_start(site.calendars, asked, None, LENGTH_S, 0.0, index=index)
    found: dict[str, list[float]] = {"earliest": [], "change": []}
    for _ in range(questions):
        changed = dict.fromkeys(site.end_oldest() + site.reserve())
        from_s = site.dice.random() * site.horizon_s
        length_s = site.dice.choice(LENGTHS_S)
        began = time.process_time()
        for name in changed:
            site.settle(name)
            index.put(name, site.calendars[name])
        index.refresh()
        told = time.process_time()
        start = earliest_start(site.calendars, asked, None, length_s, from_s, index=index)
        ended = time.process_time()
        assert start is not None
        assert len(start[1]) == asked
        found["change"].append(1e3 * (told - began))
        found["earliest"].append(1e3 * (ended - told))
    return found


def search_parts(site: BookedSite, asked: int, questions: int) -> list[float]:
    """Return milliseconds of each search for half machines."""
    half = Resources(CPUS // 2 + 1)
    found = []
    for _ in range(questions):
        from_s = site.dice.random() * site.horizon_s
        length_s = site.dice.choice(LENGTHS_S)
        began = time.process_time()
        start = earliest_start(site.calendars, asked, half, length_s, from_s)
        found.append(1e3 * (time.process_time() - began))
        assert start is not None
        assert len(start[1]) == asked
    return found


def main() -> None:
    """Measure the searches on both sites."""
    options = read_options(__doc__ or "")
    machines = options.tasks(MACHINES, QUICK_MACHINES)
    reservations = options.tasks(RESERVATIONS, QUICK_RESERVATIONS)
    asked = options.tasks(ASKED, QUICK_ASKED)
    questions = options.tasks(QUESTIONS, QUICK_QUESTIONS)
    figures = {(kind, load): Figures(2) for kind in ("whole", "parts") for load in HORIZONS_S}
    for run in range(options.runs):
        for load, horizon_s in HORIZONS_S.items():
            progress(f"{load}: run {run + 1} of {options.runs}")
            site = BookedSite(machines, reservations, horizon_s, CPUS)
            gc.collect()
            times = search_whole(site, asked, questions)
            whole = figures["whole", load]
            for name, samples in times.items():
                whole.add(f"{name}_p50_ms", percentile(samples, 50))
                whole.add(f"{name}_p99_ms", percentile(samples, 99))
            site = BookedSite(machines, reservations, horizon_s, CPUS // 2)
            search_parts(site, asked, 1)  # the profiles of all machines are made once
            samples = search_parts(site, asked, options.tasks(PARTS_QUESTIONS, QUICK_QUESTIONS))
            figures["parts", load].add("earliest_p50_ms", percentile(samples, 50))
            figures["parts", load].add("earliest_p99_ms", percentile(samples, 99))
    answer: dict[str, object] = {
        kind: {load: figures[kind, load].answer() for load in HORIZONS_S}
        for kind in ("whole", "parts")
    }
    finish(
        answer
        | {
            "settings": {
                "runs": options.runs,
                "machines": machines,
                "reservations": reservations,
                "asked": asked,
                "questions": questions,
            },
            "machine": machine_facts(Path(tempfile.gettempdir())),
        }
    )


if __name__ == "__main__":
    main()
