"""Queues: what a pass costs with several, and how long a low one waits under a flood.

`passes`: the installation of `depth.py` with its submissions in one queue and, with the same seed,
at random in three; `cpu_p50_us` and `cpu_p99_us` of the broker's reaction to one task's end,
medians of the runs, in alternation. `three_of_one_p50` is the one over the other.

The rest is virtual time, one seed: 64 machines of one cpu; in queue 0 eight accounts hand in tasks
of ten minutes at 1.2 times what the machines can do, in queue 2 one account hands in such a task
each quarter of an hour, for a day. `longest_wait_s` is that of the low queue, with each `age_s`;
what still waits at the end counts with its time until then. `bound_s` is what the spec says: the
age times the queue, and what it would wait in queue 0, which is measured in the same world with all
in queue 0 (`longest_wait_in_0_s` of the low account), and a task's time. The flood is never over,
so without ageing the low queue waits until the end of the day (`starved`).
"""

from __future__ import annotations

import tempfile
from functools import partial
from heapq import heappop, heappush
from pathlib import Path
from random import Random

import depth
from harness.options import read_options
from harness.report import Figure, finish, machine_facts, median, percentile, progress, ratio
from msgspec.structs import replace

from iriai.broker.machines.machine_view import ClaimKey, MachineView
from iriai.broker.scheduling.scheduling_pass import SchedulingPass
from iriai.broker.state.contention import DecisionRng
from iriai.broker.state.state import BrokerSettings, BrokerState
from iriai.broker.usage.usage import UsageAccounts
from iriai.config.reader import Configuration
from iriai.config.sections import OrderSection
from iriai.model.ids import Account, JobId
from iriai.model.instant import Instant
from iriai.model.resources import Resources
from iriai.plugins.orders import order_named
from iriai.policy.accounting.decay import ChargeRule
from iriai.policy.accounting.decay_rule import decay_of
from iriai.policy.draw.order import OrderSettings
from iriai.protocol.messages.scheduling import Want

QUEUES = 3
MACHINES, QUEUED, ENDS = 1_000, 100_000, 1_000
HOSTS = 64
RUN_S = 600.0
LOAD = 1.2
LOW_EVERY_S = 900.0
DAY_S = 86_400.0
AGES_S = (900.0, 3_600.0, None)
SEED = 1


class SpreadInstallation(depth.Installation):
    """Submissions are at random in so many queues."""

    queues = 1

    def want(self) -> Want:
        """One more submission."""
        want = super().want()
        if self.queues > 1:
            want = self.wants[self.number] = replace(want, queue=self.number % self.queues)
        return want


def measure_passes(queues: int, machines: int, queued: int, ends: int) -> list[float]:
    """The processor time of each reaction, in microseconds."""
    SpreadInstallation.queues = queues
    installation = SpreadInstallation(machines, queued, SEED)
    return depth.measure(installation, queued, ends).cpu_us


def passes(runs: int, machines: int, queued: int, ends: int) -> dict[str, object]:
    """Medians of the runs; each is a process of its own."""
    found: dict[int, list[list[float]]] = {1: [], QUEUES: []}
    for run in range(runs):
        for queues, samples in found.items():
            progress(f"passes with {queues} queues: run {run + 1} of {runs}")
            work = partial(measure_passes, queues, machines, queued, ends)
            samples.append(depth.in_a_process(work))
    medians = {
        queues: {
            "cpu_p50_us": median([percentile(each, 50) for each in samples]),
            "cpu_p99_us": median([percentile(each, 99) for each in samples]),
        }
        for queues, samples in found.items()
    }
    one, three = medians[1], medians[QUEUES]
    return {
        "one_queue": one,
        "three_queues": three,
        "three_of_one_p50": ratio(three["cpu_p50_us"], one["cpu_p50_us"]),
        "three_of_one_p99": ratio(three["cpu_p99_us"], one["cpu_p99_us"]),
    }


class Flood:
    """A broker whose machines are never idle."""

    def __init__(self, age_s: float | None, low_queue: int) -> None:
        order = OrderSection(age_s=age_s)
        named = order_named(order.name, OrderSettings(order.usage_floor_s))
        usage = UsageAccounts(decay_of(order), ChargeRule.of(order))
        self.state = BrokerState(BrokerSettings(Configuration(order=order), named), usage)
        self.draws = DecisionRng(Random(SEED))
        for number in range(HOSTS):
            self.state.add_machine(MachineView(f"m{number}", Resources(1), mints=False))
        self.low_queue = low_queue
        self.came_s: dict[JobId, float] = {}
        self.waits_s: list[float] = []
        """Of tasks of the low account."""

    def run(self, until_s: float) -> float:
        """Return the longest wait of the low account."""
        rng = Random(SEED)
        every_s = RUN_S / HOSTS / LOAD
        events: list[tuple[float, int, Want | tuple[MachineView, ClaimKey]]] = []
        for number in range(int(until_s / every_s)):
            account = Account("lab", f"user{rng.randrange(8)}")
            heappush(events, (number * every_s, 2 * number, self._want(2 * number, account, 0)))
        low = Account("lab", "low")
        for number in range(int(until_s / LOW_EVERY_S)):
            want = self._want(2 * number + 1, low, self.low_queue)
            heappush(events, (number * LOW_EVERY_S, 2 * number + 1, want))
        count = 1 << 40
        while events and events[0][0] < until_s:
            now_s, _, event = heappop(events)
            if isinstance(event, Want):
                self.came_s[event.job] = now_s
                self.state.put(event, now_s)
            else:
                self.state.end(*event)
            self.state.queues.age(now_s)
            now = Instant(now_s, now_s)
            for entry, seats in SchedulingPass(self.state, self.draws, now).run().decisions:
                self._started(entry.want, now_s)
                [(view, _, key)] = seats
                count += 1
                heappush(events, (now_s + RUN_S, count, (view, key)))
        for job in list(self.state.queues.entries):
            self._started(self.state.queues.entries[job].want, until_s)
        return max(self.waits_s)

    def _want(self, number: int, account: Account, queue: int) -> Want:
        job = JobId("front", number)
        return Want(job, account, Resources(1), RUN_S, 1.0, 0.0, 1, queue=queue)

    def _started(self, want: Want, now_s: float) -> None:
        if want.account.user == "low":
            self.waits_s.append(now_s - self.came_s[want.job])


def floods(until_s: float) -> dict[str, object]:
    """The longest wait with each age, beside its bound."""
    progress("the flood with all in queue 0")
    in_first_s = Flood(None, 0).run(until_s)
    rows: dict[str, dict[str, object]] = {}
    for age_s in AGES_S:
        progress(f"the flood with age_s = {age_s}")
        longest_s = Flood(age_s, QUEUES - 1).run(until_s)
        bound_s: Figure = None if age_s is None else age_s * (QUEUES - 1) + in_first_s + RUN_S
        rows["none" if age_s is None else f"{age_s:.0f}"] = {
            "longest_wait_s": round(longest_s),
            "bound_s": bound_s,
            "starved": longest_s >= until_s - LOW_EVERY_S,
        }
    return {"longest_wait_in_0_s": round(in_first_s), "ages": rows}


def main() -> None:
    """Measure both."""
    options = read_options(__doc__ or "")
    machines, queued, ends = (10, 1_000, 20) if options.quick else (MACHINES, QUEUED, ENDS)
    until_s = DAY_S / 12 if options.quick else DAY_S
    settings = {"runs": options.runs, "machines": machines, "queued": queued, "ends": ends}
    finish(
        {
            "passes": passes(options.runs, machines, queued, ends),
            "flood": floods(until_s),
            "settings": settings | {"flood_s": until_s},
            "machine": machine_facts(Path(tempfile.gettempdir())),
        }
    )


if __name__ == "__main__":
    main()
