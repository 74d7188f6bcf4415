"""What a policy sees: the view of `policy.placement.policy_api`, from the state of the broker.

It is built when a policy is asked; what costs something is computed when it is looked at. Machines
keep their objects from one pass to the next.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from iriai.broker.machines.machine_view import ClaimKey, MachineView
from iriai.broker.scheduling.promised_places import PromisedPlaces
from iriai.broker.state.contention import DecisionRng
from iriai.broker.state.job_proposals import JobProposals
from iriai.broker.state.queue_order import in_order
from iriai.broker.state.state import BrokerState
from iriai.model.ids import AttemptId, JobId
from iriai.model.instant import Instant
from iriai.model.resources import NOTHING, Resources
from iriai.policy.placement.job_decisions import ACTIONS, HeldJob, JobDecision
from iriai.policy.placement.policy_api import (
    Claimed,
    ClosedMachine,
    ClusterSummary,
    PlacedTask,
    PlannedMachine,
    QueueState,
    WaitingJob,
    anywhere,
)
from iriai.policy.placement.seats import rank_fit

if TYPE_CHECKING:
    from iriai.policy.placement.bookings import BookedSpan


class PlanView:
    """The view that the policy gets; see `policy.placement.policy_api.View`."""

    def __init__(
        self,
        machines: ViewedMachines,
        decision_rng: DecisionRng,
        now: Instant,
    ) -> None:
        self._state = machines.state
        self._promised = machines.promised.by_job
        self._proposals = machines.proposals
        self._decision_rng = decision_rng
        self._now = now
        self._cluster = machines.cluster
        self.machines: tuple[PlannedMachine, ...] = machines.at(now.steady_s)

    @property
    def cluster(self) -> ClusterSummary:
        """Return the state of the cluster."""
        state, capacity, free = self._state, NOTHING, NOTHING
        for machine in self.machines:
            capacity, free = capacity.plus(machine.capacity), free.plus(machine.free)
        waiting = sum(entry.count for entry in state.queues.entries.values())
        running = sum(state.usage.by_queue().values())
        return ClusterSummary(self._cluster, capacity, free, waiting, running)

    @cached_property
    def queues(self) -> Sequence[QueueState]:
        """Return all queues, by number; counts are of the time of the first look."""
        configuration = self._state.settings.configuration
        running = self._state.usage.by_queue()
        waiting: dict[int, int] = {}
        for entry in self._state.queues.entries.values():
            waiting[entry.want.queue] = waiting.get(entry.want.queue, 0) + entry.count
        known = range(configuration.queue_count)
        states = []
        for number in sorted({*known, *waiting, *running}):
            section = configuration.queue(number)
            state, mode = ("gone", "shared") if section is None else (section.state, section.mode)
            counts = waiting.get(number, 0), running.get(number, 0)
            states.append(QueueState(number, state, mode, *counts))
        return tuple(states)

    @property
    def closed(self) -> Sequence[ClosedMachine]:
        """Return the machines that take no tasks now, by name."""
        return tuple(
            ClosedMachine(name, _why_closed(view, self._now.steady_s))
            for name, view in sorted(self._state.machines.items())
            if not view.is_available
        )

    @property
    def held(self) -> Sequence[HeldJob]:
        """Return the jobs that are held, of homes that let policies change their jobs."""
        return tuple(self._proposals.held())

    def may(self, decision: type[JobDecision], job: JobId) -> bool:
        """Return whether the home of `job` lets a policy decide that."""
        return self._proposals.may(ACTIONS[decision], job.home)

    def refusal(self, target: JobId | AttemptId) -> str:
        """Return what its home said of the last decision that it refused; empty: nothing."""
        return self._proposals.refusal(target)

    def queue(self) -> Iterator[WaitingJob]:
        """Yield the waiting jobs in the configured order."""
        proposals, asked = self._proposals, self._proposals.asked
        for entry in in_order(self._state, self._decision_rng, self._now):
            want, kind = entry.want, entry.line.kind
            key = kind.key
            if key.reservation is not None:
                continue  # the broker starts it
            if asked and proposals.keeps_back(want.job):
                continue  # its home will hear of it
            promise = self._promised.get(want.job)
            yield WaitingJob(
                want.job,
                want.account,
                want.resources,
                key.stay_s,
                want.urgency,
                entry.precedence.queued_at_s,
                entry.count,
                None if promise is None else promise.start_s,
                kind.may_run_on if kind.is_choosy else anywhere,
                key.shape,
                key.across_pools,
                kind.planned_s,
                want.queue,
                want.user or want.account.user,
                want.requirements,
                key.exclusive,
                want.comment,
            )


class ViewedMachines:
    """The machines of a broker as policies see them; lives as long as the broker."""

    def __init__(
        self,
        state: BrokerState,
        promised: PromisedPlaces,
        proposals: JobProposals,
        *,
        is_own: bool,
    ) -> None:
        """`is_own`: the policy is built in, and minds promises itself."""
        self.state = state
        self.promised = promised
        self.proposals = proposals
        self._beside = None if is_own else promised
        self.cluster = ""
        """The name of the broker's own."""
        self._known: dict[str, ViewedMachine] = {}

    def at(self, now_s: float) -> tuple[ViewedMachine, ...]:
        """Return all that are available, by name."""
        views, known = self.state.machines, self._known
        if len(known) > len(views):
            known = self._known = {name: each for name, each in known.items() if name in views}
        found = []
        for name in sorted(views):
            view = views[name]
            if not view.is_available:
                continue
            machine = known.get(name)
            if machine is None or machine.view is not view:
                machine = known[name] = ViewedMachine(
                    view, now_s, self.state, self._beside, self.proposals
                )
            machine.now_s = now_s
            found.append(machine)
        return tuple(found)


class ViewedMachine:
    """A machine in the view; see `policy.placement.policy_api.PlannedMachine`."""

    __slots__ = ("_beside", "_proposals", "_state", "now_s", "view")

    def __init__(
        self,
        view: MachineView,
        now_s: float,
        state: BrokerState,
        beside: PromisedPlaces | None = None,
        proposals: JobProposals | None = None,
    ) -> None:
        """`beside`: the promises that count in what fits; None: they do not."""
        self._proposals = proposals
        self.view = view
        self.now_s = now_s
        self._state = state
        self._beside = beside

    @property
    def name(self) -> str:
        """Return its name."""
        return self.view.name

    @property
    def pool(self) -> str:
        """Return the name of its pool."""
        return self.view.pool

    @property
    def capacity(self) -> Resources:
        """Return all its resources."""
        return self.view.calendar.capacity

    @property
    def free(self) -> Resources:
        """Return what no task holds now."""
        return free_now(self.view)

    @property
    def ended(self) -> int:
        """Return the number of claims that have ended."""
        return self.view.ended

    def claimed(self) -> Iterator[Claimed]:
        """Yield the running claims beside reservations."""
        calendar = self.view.calendar
        for key, resources, end_s in calendar.in_order():
            if not calendar.bookings or calendar.inside(key) is None:
                yield Claimed(resources, end_s)

    def booked(self) -> Iterator[Claimed]:
        """Yield what reservations have there."""
        for booked in self.view.calendar.bookings:
            yield Claimed(booked.resources, booked.end_s, booked.from_s)

    def tasks(self) -> Iterator[PlacedTask]:
        """Yield the tasks that run there, by their ends."""
        suspended, calendar = self._state.suspended.claims, self.view.calendar
        for key, resources, end_s in calendar.in_order():
            attempt = key if isinstance(key, AttemptId) else None
            known = suspended.get(key)
            is_suspended = known is not None and (
                known.running.is_preempted
                or (known.running.suspended is not None and known.running.suspended.stands)
            )
            account, queue = self._state.usage.place_of(key)
            job, asked = self._job_of(key), ""
            if attempt is not None and self._proposals is not None:
                asked = self._proposals.asked_of(attempt)
            inside = calendar.inside(key) if calendar.bookings else None
            held = (resources, end_s, is_suspended, queue, asked, inside)
            yield PlacedTask(attempt, job, account, *held)

    def bookings(self) -> Sequence[BookedSpan]:
        """Return the reservations, by their starts."""
        return self.view.calendar.bookings

    def fit(self, job: WaitingJob) -> int:
        """Return how many ranks of a task of `job` fit now."""
        calendar = self.view.calendar
        ranks = rank_fit(job.resources, self.free)
        if calendar.bookings:
            while ranks:
                taken = job.resources.times(ranks)
                if calendar.fits(taken, self.now_s, job.needed_s):
                    break
                ranks -= 1
        if self._beside is not None and self._beside.by_job:
            return self._beside.fit(self.view, job, ranks, self.now_s)
        return ranks

    def start_s(self, job: WaitingJob) -> float | None:
        """Return when a rank of a task of `job` may start there first."""
        beside = self._beside or PromisedPlaces(self._state, {})
        return beside.earliest_s(self.view, job, self.now_s)

    def earliest_s(self, resources: Resources) -> float | None:
        """Return when `resources` fit at the latest if nothing else starts."""
        slot = self.view.calendar.earliest(resources, self.now_s)
        return None if slot is None else slot.start_s

    def _job_of(self, key: ClaimKey) -> JobId | None:
        if isinstance(key, AttemptId):
            return JobId(key.home, key.number)
        matched = None if isinstance(key, int) else self.view.matched.get(key)
        return None if matched is None else matched.entry.want.job


def free_now(view: MachineView) -> Resources:
    """Return what is free on a machine for a task that starts now."""
    return view.calendar.free if view.is_open else NOTHING


def _why_closed(view: MachineView, now_s: float) -> str:
    if view.is_away:
        return "it cannot be reached"
    reason = view.unavailable or view.back_off.reason(now_s)
    return "" if reason is None else reason.had
