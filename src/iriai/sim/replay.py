"""Replay: the broker's own state, calendars, queues, orders and pass, without messages.

One machine with the log's processors; a job's width is its cpus. At one instant all ends come
first, then all submissions, then one pass of the policy. Nothing takes time but the jobs.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from random import Random

from iriai.broker.machines import ClaimKey, MachineView
from iriai.broker.passes import Pass
from iriai.broker.standings import Standings
from iriai.broker.state import BrokerSettings, BrokerState
from iriai.model.ids import JobId
from iriai.model.instant import Instant
from iriai.model.resources import Resources
from iriai.policy.fairshare import ChargeRule
from iriai.policy.order import OrderSettings
from iriai.policy.registry import order_named
from iriai.protocol.messages import Want
from iriai.sim.bill import Bill
from iriai.sim.log import Log, LogJob
from iriai.sim.record import Progress, Record, no_progress, with_starts
from iriai.sim.settings import FIFO, Settings

MACHINE = "machine"
HOME = "log"
PROGRESS_JOBS = 256
"""Between two calls of `Progress`: a hundredth of a second or so."""


def replay(log: Log, settings: Settings, progress: Progress = no_progress) -> list[Record]:
    """When each job of `log` starts and ends, in the order of the log."""
    run = _Replay(log, settings)
    starts: dict[int, float] = {}
    submitted = 0
    for now_s, jobs in run.instants():
        for job in run.turn(now_s, jobs):
            starts[job.number] = now_s
        submitted += len(jobs)
        if jobs and submitted % PROGRESS_JOBS < len(jobs):
            progress(submitted, now_s)
    progress(len(log.jobs), now_s)
    return with_starts(log, (starts[job.number] for job in log.jobs))


class _Replay:
    """One machine and its broker's state."""

    def __init__(self, log: Log, settings: Settings) -> None:
        self._log = log
        self._settings = settings
        configuration = settings.configuration_for(log)
        order = configuration.order
        named = order_named(settings.order, OrderSettings(order.usage_floor_s))
        self._rng = Random(settings.seed)
        self._state = BrokerState(
            BrokerSettings(configuration, named),
            Standings(order.half_life_s, ChargeRule.of(order)),
        )
        self._view = MachineView(MACHINE, Resources(log.processors), mints=False)
        self._state.add_machine(self._view)
        self._bill = None
        if settings.order != FIFO:
            self._bill = Bill(
                MACHINE, self._state.standings, ChargeRule.of(order), order.half_life_s
            )
        self._by_number = {job.number: job for job in log.jobs}
        self._ends: list[tuple[float, int, ClaimKey]] = []

    def instants(self) -> Iterator[tuple[float, list[LogJob]]]:
        """Each moment at which something ends or is handed in, with what is handed in."""
        jobs = self._log.jobs
        place, count = 0, len(jobs)
        while place < count or self._ends:
            end_s = self._ends[0][0] if self._ends else None
            if place < count and (end_s is None or jobs[place].submit_s <= end_s):
                now_s = jobs[place].submit_s
            else:
                assert end_s is not None
                now_s = end_s
            arrived = []
            while place < count and jobs[place].submit_s == now_s:
                arrived.append(jobs[place])
                place += 1
            yield now_s, arrived

    def turn(self, now_s: float, arrived: list[LogJob]) -> list[LogJob]:
        """Ends, submissions, one pass; the jobs that it starts."""
        state, view, ends = self._state, self._view, self._ends
        wall_s = self._log.began_wall_s + now_s
        while ends and ends[0][0] == now_s:
            _, number, key = heappop(ends)
            if self._bill:
                self._bill.ended(self._by_number[number], now_s, wall_s)
            state.end(view, key)
        for job in arrived:
            want = Want(
                JobId(HOME, job.number),
                job.account,
                Resources(job.width),
                float(job.estimate_s),
                1.0,
                0.0,
                1,
            )
            state.put(want, now_s)
        if self._bill:
            self._bill.bring_up_to(now_s, wall_s)
        started = []
        if state.may_start_something:
            outcome = Pass(state, self._rng, Instant(now_s, wall_s)).run()
            for entry, _, key in outcome.decisions:
                job = self._by_number[entry.want.job.number]
                started.append(job)
                heappush(ends, (now_s + job.run_s, job.number, key))
                if self._bill:
                    self._bill.began(key, job, now_s)
        if self._settings.is_checked:
            view.check()
            state.queues.check()
        return started
