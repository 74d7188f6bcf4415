"""Replay: the broker's own state, calendars, queues, orders and pass, without messages.

One machine with the log's processors, where a job's width is its cpus; or several, where it is its
ranks. At one instant all ends come
first, then all submissions, then one pass of the policy. Nothing takes time but the jobs.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from math import inf
from random import Random
from typing import NamedTuple

from msgspec.structs import replace

from iriai.broker.machines.machine_view import ClaimKey, MachineView
from iriai.broker.scheduling.plan_policy import planning_of
from iriai.broker.scheduling.scheduling_pass import PassResult, SchedulingPass
from iriai.broker.scheduling.task_starts import Decision
from iriai.broker.state.contention import DecisionRng
from iriai.broker.state.state import BrokerSettings, BrokerState, MatchedSeat
from iriai.broker.usage.usage import UsageAccounts
from iriai.model.ids import JobId
from iriai.model.instant import Instant
from iriai.model.problem import Refused
from iriai.model.ranks import RankShape
from iriai.model.resources import Resources
from iriai.plugins.orders import order_named
from iriai.policy.accounting.decay import ChargeRule
from iriai.policy.accounting.decay_rule import decay_of
from iriai.policy.draw.order import OrderSettings
from iriai.protocol.messages.scheduling import Want
from iriai.sim.workload.booked_replay import BookedReplay, Judge
from iriai.sim.workload.charging import SlicedCharges
from iriai.sim.workload.log import Log, LogJob, Progress, Record, no_progress, with_starts
from iriai.sim.workload.reservations import LogRun
from iriai.sim.workload.settings import FIFO, ReplaySettings, machines_of

HOME = "log"
ONE_CPU = Resources(cpus=1)
PROGRESS_JOBS = 256
"""Between two calls of `Progress`: a hundredth of a second or so."""

WAITING_MAX, WHOLE_EACH = 100, 100
"""Where more jobs wait, `--check` goes through all of them at each hundredth instant only:
thousands wait in a long log, and an hour would go by."""


def replay(log: Log, settings: ReplaySettings, progress: Progress = no_progress) -> list[Record]:
    """Return the start and end of each job of `log`, in its order.

    Raises:
        PolicyError: a policy from a file did what it may not.
        Refused: a policy from a file left jobs that nothing would ever start.
        UsageProblem: there are more machines than the log has processors.
    """
    return replay_all(log, settings, progress).records


def replay_all(
    log: Log,
    settings: ReplaySettings,
    progress: Progress = no_progress,
    judge: Judge | None = None,
) -> LogRun:
    """Return what became of the jobs and reservations of `log`; raise as `replay`.

    `judge` is called with each answer to a reservation.
    """
    run = _Replay(log, settings, judge)
    run.all(progress)
    records = with_starts(log, (run.starts[job.number] for job in log.jobs))
    if run.booked is None:
        return LogRun(records)
    return LogRun(records, run.booked.outcomes, run.booked.promises.broken)


class _Running(NamedTuple):
    """A job that runs; the earliest end comes first, of one moment the lowest number."""

    end_s: float
    number: int
    job: LogJob
    seats: tuple[MatchedSeat, ...]


class _Replay:
    """The machines and their broker's state."""

    def __init__(self, log: Log, settings: ReplaySettings, judge: Judge | None) -> None:
        self.starts: dict[int, float] = {}
        self._log = log
        self._is_checked = settings.is_checked
        configuration = settings.configuration_for(log)
        order = configuration.order
        named = order_named(settings.order, OrderSettings(order.usage_floor_s))
        self._rng = DecisionRng(Random(settings.seed))
        usage = UsageAccounts(decay_of(order), ChargeRule.of(order), order.even)
        state = self._state = BrokerState(
            BrokerSettings(configuration, named, settings.plan_source()), usage
        )
        self._planning = planning_of(state) if state.settings.is_planned else None
        self._are_many = settings.machines > 1
        self._views = [
            MachineView(name, Resources(cpus), mints=False)
            for name, cpus in machines_of(log, settings.machines)
        ]
        for view in self._views:
            state.add_machine(view)
        self._bills: dict[str, SlicedCharges] = {}
        """By machine; empty where nothing depends on what accounts were charged."""
        is_limited = bool(log.reservations) and configuration.reservations.share_limit
        if settings.order != FIFO or is_limited:
            rule, decay = ChargeRule.of(order), decay_of(order)
            for view in self._views:
                self._bills[view.name] = SlicedCharges(
                    view.name, usage, rule, decay, log.began_wall_s
                )
        self._waiting: dict[int, LogJob] = {}
        self._running: list[_Running] = []
        self._instants = 0
        self._widths: dict[int, Resources] = {}
        """One object for each width: what is alike is compared at once."""
        self.booked: BookedReplay | None = None
        """None: nothing is reserved."""
        if log.reservations:
            planned = None if self._planning is None else self._planning.kept
            self.booked = BookedReplay(log, state, planned, self._bills, judge, self._evict)

    def all(self, progress: Progress) -> None:
        """Replay the log from its first submission to the last end."""
        jobs = self._log.jobs
        place, count = 0, len(jobs)
        next_progress = PROGRESS_JOBS
        now_s, next_s = -inf, jobs[0].submit_s if jobs else inf
        if self.booked is not None:
            next_s = min(next_s, self.booked.next_s(now_s))
        while next_s < inf:
            now_s, first = next_s, place
            while place < count and jobs[place].submit_s == now_s:
                place += 1
            self._turn(now_s, jobs[first:place])
            if place >= next_progress:
                next_progress = place + PROGRESS_JOBS
                progress(place, now_s)
            next_s = self._next_s(jobs[place].submit_s if place < count else inf, now_s)
            if self.booked is not None:
                next_s = min(next_s, self.booked.next_s(now_s))
        if self._waiting:
            raise _left_over(len(self._waiting))
        progress(count, now_s)

    def _next_s(self, submit_s: float, now_s: float) -> float:
        """Return the time of the next event; infinite if there is none."""
        next_s = min(submit_s, self._running[0].end_s) if self._running else submit_s
        wake_s = self._planning.wake_s if self._planning is not None else None
        return min(next_s, wake_s) if wake_s is not None and wake_s > now_s else next_s

    def _turn(self, now_s: float, arrived: Sequence[LogJob]) -> None:
        """Handle one instant: ends, submissions, one pass."""
        wall_s = self._log.began_wall_s + now_s
        bills = self._bills.values()
        for bill in bills:
            bill.turn(now_s)
        has_ended = self._end_what_is_over(now_s)
        booked = self.booked
        if booked is not None:
            has_ended |= booked.begin_turn(Instant(now_s, wall_s))
        for job in arrived:
            self._waiting[job[0]] = job
            self._state.put(self._want(job), now_s)
        if self._planning is None and not (
            self._state.may_start_something and (has_ended or self._may_start_some_of(arrived))
        ):
            decisions = []
        else:
            for bill in bills:
                bill.publish()
            decisions = self._pass(Instant(now_s, wall_s)).decisions
        if decisions:
            self._start(decisions, now_s)
        if booked is not None:
            self._reserve(booked, Instant(now_s, wall_s))
        for bill in bills:
            bill.end_turn(now_s)
        if self._is_checked:
            self._check()

    def _reserve(self, booked: BookedReplay, now: Instant) -> None:
        """Ask for the reservations that are due, each with a pass after it if it is booked."""
        while booked.is_due(now.steady_s):
            if booked.ask(now):
                for bill in self._bills.values():
                    bill.publish()
                self._start(self._pass(now).decisions, now.steady_s)

    def _start(self, decisions: Sequence[Decision], now_s: float) -> None:
        bills, booked = self._bills, self.booked
        for entry, seats in decisions:
            job = self._waiting.pop(entry.want.job.number)
            self.starts[job.number] = now_s
            if booked is not None:
                booked.promises.started(job.number, now_s)
            heappush(self._running, _Running(now_s + job.run_s, job.number, job, seats))
            if bills:
                for view, ranks, key in seats:
                    cpus = ranks if self._are_many else job.width
                    bills[view.name].began(key, job, cpus, now_s)

    def _may_start_some_of(self, arrived: Sequence[LogJob]) -> bool:
        """Return False if a pass could start nothing, since no job has ended.

        Where a place is kept for the head of the one queue, what does not fit beside what runs only
        joins that queue.
        """
        state = self._state
        if self._bills or not (state.reserved or state.heads.by_job):
            return True
        free_cpus = sum(view.calendar.free.cpus for view in self._views)
        return any(job.width <= free_cpus for job in arrived)

    def _check(self) -> None:
        """Check the machine at each instant, and the queues unless they are long."""
        self._instants += 1
        if len(self._waiting) <= WAITING_MAX or not self._instants % WHOLE_EACH:
            self._state.check()
        else:
            for view in self._views:
                view.check()

    def _end_what_is_over(self, now_s: float) -> bool:
        """End the jobs that are due; return True if there were any."""
        running = self._running
        has_ended = bool(running) and running[0][0] == now_s
        while running and running[0][0] == now_s:
            _, _, _, seats = heappop(running)
            for number, (view, _, key) in enumerate(seats):
                if self._bills:
                    self._bills[view.name].ended(key, now_s, is_first=not number)
                self._state.end(view, key)
        return has_ended

    def _evict(self, key: ClaimKey, now_s: float) -> None:
        """End the job that has a claim; it waits again, the first of its account."""
        keyed = (run for run in self._running if any(seat.key == key for seat in run.seats))
        run = next(keyed, None)
        if run is None:
            return  # another of its claims was in the way
        self._running.remove(run)
        heapify(self._running)
        for view, _, held in run.seats:
            if self._bills:
                self._bills[view.name].ended(held, now_s, is_first=False)
            self._state.end(view, held)
        self._waiting[run.number] = run.job
        waited_s = now_s - run.job.submit_s
        self._state.put(replace(self._want(run.job), front=1, waited_s=waited_s), now_s)

    def _pass(self, now: Instant) -> PassResult:
        if self._planning is None:
            outcome = SchedulingPass(self._state, self._rng, now).run()
        else:
            outcome = self._planning.run(self._rng, now)
            if self._planning.mistake is not None:
                raise self._planning.mistake
        if self.booked is not None:
            self.booked.told(outcome.promises, now.steady_s)
        return outcome

    def _want(self, job: LogJob) -> Want:
        width = self._widths.get(job.width)
        if width is None:
            width = self._widths[job.width] = Resources(job.width)
        id_, estimate_s = JobId(HOME, job.number), job.estimate_s
        if self._are_many and job.width > 1:
            shape = RankShape(job.width, job.width)
            return Want(id_, job.account, ONE_CPU, estimate_s, 1.0, 0.0, 1, shape=shape)
        return Want(id_, job.account, width, estimate_s, 1.0, 0.0, 1)


def _left_over(count: int) -> Refused:
    jobs = "1 job is waiting" if count == 1 else f"{count:,} jobs are waiting"
    return Refused(
        "left-over",
        f"deadlock: {jobs}, and the policy starts none of them",
        "a policy must start every job in the end",
    )
