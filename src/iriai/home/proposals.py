"""What a home does with what the policy of its cluster proposes (docs/spec/002, section 2).

The home is the authority on its jobs: it obeys within what its operator permits, and what the user
of a job could do; and it says why not, with what would do.
"""

from __future__ import annotations

from typing import Protocol, assert_never

from iriai.home.active_task import ActiveTask
from iriai.home.job import JobState
from iriai.model.alteration import Alteration
from iriai.model.ids import AttemptId, JobId
from iriai.model.instant import Instant
from iriai.model.policy_terms import JobAction, PolicyTerms
from iriai.model.problem import NotFound, Problem, Refused
from iriai.model.records import Altered
from iriai.model.state import TaskState
from iriai.protocol.messages.proposals import Propose, Proposed

POLICY = "policy "
"""Who did something, where a policy did: no name of a user has a space."""
WINDOW_S = 10.0
OBEYED_MAX = 2_000
"""Proposals that are obeyed in such a time. More: a policy in a loop fills the disk of a home;
fewer: what it does to a large array takes longer than its `plan`."""
WORDS_MAX = 4_000
"""Characters of a refusal."""


class JobChanger(Protocol):
    """The home, as far as it changes jobs."""

    def job(self, number: int) -> JobState:
        """Return a job that has not finished; raise `NotFound` if there is none."""
        ...

    def hold(self, number: int, by: str, *, is_operators: bool = False) -> int:
        """Keep the waiting tasks of a job from starting."""
        ...

    def release(self, number: int, by: str, *, is_operator: bool = False) -> int:
        """Let the held tasks of a job start."""
        ...

    def cancel(self, number: int, indices: tuple[int, ...], by: str) -> int:
        """Withdraw waiting tasks and stop running ones."""
        ...

    def suspend(self, number: int, indices: tuple[int, ...], by: str, *, is_wanted: bool) -> int:
        """Suspend running tasks, or let them go on."""
        ...

    def requeue(self, number: int, index: int, by: str) -> None:
        """End an attempt; its task waits again."""
        ...

    def comment(self, number: int, text: str, by: str) -> None:
        """Write a comment on a job."""
        ...

    def alter(self, number: int, wanted: Alteration, by: str) -> Altered | None:
        """Change what the waiting tasks of a job ask for."""
        ...


class HomeProposals:
    """Judges and carries out what a policy proposes."""

    def __init__(self, home: str, changer: JobChanger) -> None:
        self._home = home
        self._changer = changer
        self._last = (-1.0, 0)
        """Term and number of the last proposal: one that is not later was heard before."""
        self._since_s = 0.0
        self._obeyed = 0
        """Since then."""

    def answer(self, propose: Propose, terms: PolicyTerms, now: Instant) -> Proposed | None:
        """Do what is proposed, or say why not; None: it is no news."""
        stamp = propose.term, propose.number
        if stamp <= self._last:
            return None
        self._last = stamp
        try:
            self._check_rate(now.steady_s)
            self._obey(propose, terms)
        except Problem as problem:
            words = (problem.message[:WORDS_MAX], problem.hint[:WORDS_MAX])
            return Proposed(propose.job, propose.number, *words, problem.code)
        self._obeyed += 1
        return Proposed(propose.job, propose.number)

    def _check_rate(self, now_s: float) -> None:
        if not self._since_s <= now_s < self._since_s + WINDOW_S:
            self._since_s, self._obeyed = now_s, 0
        if self._obeyed >= OBEYED_MAX:
            raise Refused(
                "too-many-proposals",
                f"{self._home} obeyed {OBEYED_MAX:,} decisions within {WINDOW_S:g} s",
                "decide the rest later",
            )

    def _obey(self, propose: Propose, terms: PolicyTerms) -> None:
        job_id, action, by = propose.job, propose.action, f"{POLICY}{propose.policy}"
        if job_id.home != self._home:
            raise NotFound("no-such-job", f"{job_id} is a job of another home")
        if action not in terms.may:
            raise Refused("not-permitted", not_permitted(self._home, action), what_permits(action))
        job, number = self._changer.job(job_id.number), job_id.number
        if job.spec.reservation is not None and not _is_comment(propose):
            raise Refused("in-reservation", f"{job_id} has a reservation", "its user decides there")
        match action:
            case JobAction.HOLD:
                self._changer.hold(number, by, is_operators=propose.is_operators)
            case JobAction.RELEASE:
                self._release(job_id, job, by)
            case JobAction.MODIFY:
                self._modify(propose, job, terms, by)
            case JobAction.END if propose.attempt is None:
                self._changer.cancel(number, (), by)
            case JobAction.END | JobAction.REQUEUE | JobAction.SUSPEND | JobAction.UNSUSPEND:
                self._change_task(propose, job, by)
            case _:
                assert_never(action)

    def _release(self, job_id: JobId, job: JobState, by: str) -> None:
        if job.held and not job.held_by.startswith(POLICY):
            raise Refused(
                "held-by-user",
                f"{job_id} was held by {job.held_by}, not by a policy",
                f"its user or an operator releases it: iriai release {job_id}",
            )
        self._changer.release(job.number, by, is_operator=True)

    def _modify(self, propose: Propose, job: JobState, terms: PolicyTerms, by: str) -> None:
        changes = propose.changes
        if not _is_comment(propose):
            self._changer.alter(job.number, terms.alteration(job.spec, changes), by)
        if isinstance(changes.comment, str) and changes.comment != job.comment:
            self._changer.comment(job.number, changes.comment, by)

    def _change_task(self, propose: Propose, job: JobState, by: str) -> None:
        attempt = propose.attempt
        task = None if attempt is None else _current(job, attempt)
        if attempt is None or task is None:
            raise NotFound("no-such-attempt", f"{attempt or propose.job} does not run")
        indices = (attempt.index,)
        match propose.action:
            case JobAction.END:
                self._changer.cancel(job.number, indices, by)
            case JobAction.REQUEUE:
                self._requeue(attempt, job, task, by)
            case JobAction.SUSPEND:
                self._changer.suspend(job.number, indices, by, is_wanted=True)
            case _:
                suspension = task.suspension
                if suspension is None or not suspension.is_wanted:
                    return
                if not suspension.by.startswith(POLICY):
                    raise Refused(
                        "suspended-by-user",
                        f"{attempt.task} was suspended by {suspension.by}, not by a policy",
                        f"its user lets it go on: iriai unsuspend {attempt.task}",
                    )
                self._changer.suspend(job.number, indices, by, is_wanted=False)

    def _requeue(self, attempt: AttemptId, job: JobState, task: ActiveTask, by: str) -> None:
        if not task.has_started:
            raise Refused("not-running", f"{attempt} has not begun", "wait for a moment")
        if job.spec.max_restarts == 0:
            raise Refused(
                "no-restart",
                f"the user of {attempt.task} asked that it never runs twice (--no-restart)",
                "suspend it, or end it",
            )
        if not (task.is_leaving or task.stopping):
            self._changer.requeue(job.number, attempt.index, by)


def not_permitted(home: str, action: JobAction) -> str:
    """Return in words that a home's operator did not permit an action."""
    return f"{home} does not let a policy {action} its jobs"


def what_permits(action: JobAction) -> str:
    """Return in words what permits an action."""
    return f"its operator may set policy_may = ['{action}'] under [jobs]; see view.may"


def _is_comment(propose: Propose) -> bool:
    return propose.action is JobAction.MODIFY and propose.changes.fields == ("comment",)


def _current(job: JobState, attempt: AttemptId) -> ActiveTask | None:
    """Return the task of an attempt, if it is the task's current one."""
    task = job.tasks.get(attempt.index)
    if task is None or task.attempt != attempt.attempt or task.state is TaskState.QUEUED:
        return None
    return task
