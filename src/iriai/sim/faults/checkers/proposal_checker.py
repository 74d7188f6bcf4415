"""The checker of what policies do with jobs (docs/spec/002, section 2): by what homes record."""

from __future__ import annotations

from iriai.home.proposals import POLICY
from iriai.model.ids import JobId
from iriai.model.policy_terms import JobAction
from iriai.model.records import (
    Altered,
    Cancelled,
    Change,
    Commented,
    Ended,
    Held,
    JobAccepted,
    JobEvent,
    Record,
    Released,
    Requeued,
    UserSuspended,
)
from iriai.model.state import EndCause
from iriai.sim.world.machine_model import SimulatedMachine

LEAVES_WITHIN_S = 20.0
"""Once nothing breaks any more: its grace, an order that was lost, and leases."""


class ProposalChecker:
    """Checks the events of jobs that a policy caused."""

    def __init__(self, calm_from_s: float) -> None:
        self._calm_from_s = calm_from_s
        self._held_by: dict[JobId, str] = {}
        self._suspended_by: dict[tuple[JobId, int, int], str] = {}
        """By job, index and attempt."""
        self._leaving: dict[tuple[JobId, int, int], float] = {}
        """Since when."""
        self._cancelled: set[JobId] = set()
        """Jobs of which a task was cancelled."""

    def recorded(self, machine: SimulatedMachine, record: Record, now_s: float) -> None:
        """Check one record of a home.

        Raises:
            AssertionError: a policy did what it may not, or what it asked for came to nothing.
        """
        home = machine.plan.name
        if isinstance(record, JobAccepted) and record.spec.held:
            self._held_by[JobId(home, record.number)] = record.spec.user
        if not isinstance(record, JobEvent):
            return
        job, change = JobId(home, record.number), record.change
        by = getattr(change, "by", "")
        if by.startswith(POLICY):
            self._check_permitted(machine, job, change, by)
        self._note(job, change, now_s)

    def check(self, now_s: float) -> None:
        """Check that what was to leave has left."""
        for (job, index, attempt), since_s in self._leaving.items():
            waited_s = now_s - max(since_s, self._calm_from_s)
            assert waited_s < LEAVES_WITHIN_S, f"{job}.{index}#{attempt} does not leave"

    def _check_permitted(
        self, machine: SimulatedMachine, job: JobId, change: Change, by: str
    ) -> None:
        plan = machine.plan
        assert plan.policy is not None, f"{job}: {by}, where there is none"
        assert by == f"{POLICY}{plan.policy.name}", f"{job}: {by}, which leads nobody"
        action = _action_of(change)
        assert action in plan.configuration.jobs.policy_may, f"{plan.name} permits no {action}"
        if isinstance(change, Released):
            held_by = self._held_by.get(job, "")
            assert held_by.startswith(POLICY), f"{by} releases {job}, which {held_by} held"
        if isinstance(change, UserSuspended) and not change.is_wanted:
            for index, attempt in change.tasks:
                whose = self._suspended_by.get((job, index, attempt), "")
                assert whose.startswith(POLICY), f"{by} lets {job} go on, which {whose} suspended"
        if isinstance(change, Altered):
            was_s, now_s = change.was.time_limit_s, change.now.time_limit_s
            is_longer = isinstance(was_s, float) and not (
                isinstance(now_s, float) and now_s <= was_s
            )
            assert not is_longer, f"{by} lets {job} run for {now_s} s, not {was_s}"

    def _note(self, job: JobId, change: Change, now_s: float) -> None:
        match change:
            case Held(by):
                self._held_by[job] = by
            case Cancelled():
                self._cancelled.add(job)
            case UserSuspended(tasks, by):
                self._suspended_by.update(dict.fromkeys(((job, *task) for task in tasks), by))
            case Requeued(tasks):
                self._leaving.update(dict.fromkeys(((job, *task) for task in tasks), now_s))
            case Ended(tasks):
                for index, attempt, cause, *_ in tasks:
                    left = self._leaving.pop((job, index, attempt), None)
                    is_lost = cause is EndCause.CANCELLED and job not in self._cancelled
                    assert left is None or not is_lost, f"{job} was to wait again: {cause}"


def _action_of(change: Change) -> JobAction:
    """Return what has to be permitted for it."""
    match change:
        case Held():
            return JobAction.HOLD
        case Released():
            return JobAction.RELEASE
        case Requeued():
            return JobAction.REQUEUE
        case Cancelled():
            return JobAction.END
        case UserSuspended(_, _, is_wanted):
            return JobAction.SUSPEND if is_wanted else JobAction.UNSUSPEND
        case Altered() | Commented():
            return JobAction.MODIFY
        case _:
            raise AssertionError(f"{type(change).__name__} of a policy")
