"""What a policy may decide about a job, beside when and where it starts.

A job belongs to its home: each of these is proposed to it, and takes effect when it has obeyed, a
moment later. It obeys where its operator permits that (`[jobs] policy_may`; `View.may` says so),
and within what the user of the job could do. A decision that is repeated is not sent again.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from iriai.model.ids import Account, AttemptId, JobId
from iriai.model.policy_terms import JobAction
from iriai.model.resources import Resources


class HoldJob(NamedTuple):
    """The waiting tasks of `job` do not start until it is released."""

    job: JobId
    holder: Literal["user", "operator"] = "user"
    """Who may release it, beside a policy: its user and operators, or operators alone."""


class ReleaseJob(NamedTuple):
    """The tasks of `job`, which a policy held, may start. What a person held stays held."""

    job: JobId


class RequeueTask(NamedTuple):
    """The attempt ends `evicted`, within its grace, and its task waits again."""

    attempt: AttemptId


class EndTask(NamedTuple):
    """The task of the attempt is cancelled."""

    attempt: AttemptId


class EndJob(NamedTuple):
    """The whole job is cancelled: what waits and what runs."""

    job: JobId


class SuspendTask(NamedTuple):
    """The attempt is suspended, as by its user: it keeps its memory and gives its cpus back."""

    attempt: AttemptId


class UnsuspendTask(NamedTuple):
    """The attempt, which a policy suspended, goes on once its cpus are free."""

    attempt: AttemptId


class ModifyJob(NamedTuple):
    """`job` has other values from now on; None: that one stays."""

    job: JobId
    comment: str | None = None
    """For people, in `iriai show`; at most 256 characters."""
    queue: int | None = None
    """One that takes jobs, and is for everybody or for the same group as its present one."""
    urgency: float | None = None
    time_limit_s: float | None = None
    """Lower than it is, or up to the maximum of its queue."""


OfJob = HoldJob | ReleaseJob | EndJob | ModifyJob
OfTask = RequeueTask | EndTask | SuspendTask | UnsuspendTask
JobDecision = OfJob | OfTask

ACTIONS: dict[type, JobAction] = {
    HoldJob: JobAction.HOLD,
    ReleaseJob: JobAction.RELEASE,
    EndJob: JobAction.END,
    ModifyJob: JobAction.MODIFY,
    RequeueTask: JobAction.REQUEUE,
    EndTask: JobAction.END,
    SuspendTask: JobAction.SUSPEND,
    UnsuspendTask: JobAction.UNSUSPEND,
}
"""What each of them asks of a home."""


class HeldJob(NamedTuple):
    """A job that is held, of a home that lets policies change its jobs."""

    id: JobId
    account: Account
    user: str
    resources: Resources
    """Of each task, or rank."""
    urgency: float
    queued_at_s: float
    """On the steady clock."""
    tasks: int
    """How many would wait."""
    queue: int
    by: str
    """Who holds it; `policy NAME` for a policy."""
    is_operators: bool
    """Whether its user may not release it."""
    comment: str

    @property
    def is_policys(self) -> bool:
        """Return whether a policy holds it, and so may release it."""
        return " " in self.by
