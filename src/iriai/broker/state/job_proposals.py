"""What a policy decides about jobs: judged, and proposed to their homes.

The broker knows which homes permit what, and what waits and runs; the last word has the home. A
decision is sent once, and again when it is repeated after `ASKED_S`: its message may be lost.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from iriai.broker.state.state import BrokerState
from iriai.model.bounds import QUEUE_MAX, URGENCY_MAX
from iriai.model.ids import AttemptId, JobId
from iriai.model.instant import Instant
from iriai.model.job import LIMIT_MAX
from iriai.model.policy_terms import COMMENT_CHARACTERS_MAX, JobAction, ProposedValues
from iriai.policy.placement.job_decisions import (
    ACTIONS,
    EndJob,
    HeldJob,
    HoldJob,
    JobDecision,
    ModifyJob,
    OfJob,
    OfTask,
    ReleaseJob,
)
from iriai.policy.policy_error import Mistake
from iriai.protocol.messages.proposals import Propose, Proposed
from iriai.protocol.messages.scheduling import Want

ASKED_S = 10.0
"""For so long an equal decision is not sent again: an answer takes less, and a message that is lost
is not missed for longer."""
REFUSED_S = 300.0
"""For so long a decision that its home refused is not sent again. Longer: what its operator permits
meanwhile is noticed later; shorter: the log fills with one refusal."""
CHANGES_MAX = 10
"""Different decisions of one kind about one job or task within that time. A policy with more of
them is in a loop: it holds what it releases."""
NAMES_SHOWN = 4
LIMIT_MIN_S = 1.0
"""A shorter time limit is a mistake."""
_RACES = ("no-such-job", "no-such-attempt", "nothing-waits", "not-running", "too-many-proposals")
"""Codes of refusals that are nobody's mistake: the job changed in the meantime."""
_KINDS = {
    JobAction.HOLD: "hold",
    JobAction.RELEASE: "hold",
    JobAction.REQUEUE: "leave",
    JobAction.END: "leave",
    JobAction.SUSPEND: "suspend",
    JobAction.UNSUSPEND: "suspend",
    JobAction.MODIFY: "modify",
}
"""Actions of one kind replace each other."""


class _About(NamedTuple):
    """What a decision is about, and of which kind it is."""

    target: JobId | AttemptId
    kind: str


class _Asked(msgspec.Struct):
    """A decision that was sent."""

    decision: JobDecision
    number: int
    until_s: float
    sent: int
    """How many different ones were sent since `since_s`."""
    since_s: float
    is_seen: bool = False
    """Whether what was asked for has been there, or was refused: it counts no more in the view."""


class _RefusedDecision(NamedTuple):
    """A decision that a home refused."""

    decision: JobDecision
    words: str
    until_s: float


class JobProposals:
    """What was proposed; lives as long as the broker."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self._permitted: dict[str, tuple[JobAction, ...]] = {}
        """By home."""
        self._held: dict[JobId, tuple[Want, float]] = {}
        """Held jobs with when they were queued, of homes that permit something."""
        self.asked: OrderedDict[_About, _Asked] = OrderedDict()
        """What was asked a moment ago, in the order in which it lapses."""
        self._abouts: dict[int, _About] = {}
        """By the number of the last decision."""
        self._refused: OrderedDict[_About, _RefusedDecision] = OrderedDict()
        """By the policy's own fault, in the order in which they lapse."""
        self._number = 0

    # --- what homes say --------------------------------------------------------------------------

    def permitted(self, home: str, actions: tuple[JobAction, ...]) -> None:
        """Note what a home lets a policy do with its jobs."""
        if actions:
            self._permitted[home] = actions
        else:
            self._permitted.pop(home, None)

    def told(self, want: Want, now_s: float) -> None:
        """Note whether a job is held."""
        if want.held is not None:
            self._held[want.job] = want, now_s - want.waited_s
        else:
            self._held.pop(want.job, None)
        asked = self.asked.get(_About(want.job, "hold"))
        if asked is not None and isinstance(asked.decision, HoldJob):
            asked.is_seen |= want.held is not None

    def forget(self, job: JobId) -> None:
        """Forget a job that waits no more."""
        self._held.pop(job, None)

    def forget_home(self, home: str) -> None:
        """Forget a home that cannot be reached; it tells all when it is back."""
        self._permitted.pop(home, None)
        for job in [job for job in self._held if job.home == home]:
            del self._held[job]

    def answered(self, answer: Proposed, now_s: float) -> str:
        """Note the answer of a home; return what is to be told of it, if the policy erred."""
        about = self._abouts.get(answer.number)
        if about is None or not answer.refusal or _job_of(about.target) != answer.job:
            return ""
        asked = self.asked[about]
        asked.is_seen = True
        if answer.code in _RACES:
            return ""
        words = f"{answer.refusal}; {answer.nearest}"
        self._refused.pop(about, None)
        self._refused[about] = _RefusedDecision(asked.decision, words, now_s + REFUSED_S)
        return words

    # --- what a policy sees ----------------------------------------------------------------------

    def may(self, action: JobAction, home: str) -> bool:
        """Return whether a home permits an action."""
        return action in self._permitted.get(home, ())

    def held(self) -> Iterator[HeldJob]:
        """Yield the held jobs, in the order in which they came to be."""
        for want, queued_at_s in self._held.values():
            hold = want.held
            if hold is not None:
                user = want.user or want.account.user
                job = (want.job, want.account, user, want.resources, want.urgency, queued_at_s)
                yield HeldJob(
                    *job, hold.tasks, want.queue, hold.by, hold.is_operators, want.comment
                )

    def keeps_back(self, job: JobId) -> str:
        """Return how the policy keeps a job from starting, which its home may not know yet."""
        for kind in ("hold", "leave"):
            asked = self.asked.get(_About(job, kind))
            if (
                asked is not None
                and not asked.is_seen
                and not isinstance(asked.decision, ReleaseJob)
            ):
                return ACTIONS[type(asked.decision)]
        return ""

    def asked_of(self, attempt: AttemptId) -> str:
        """Return what was asked of an attempt a moment ago; empty: nothing."""
        if not self.asked:
            return ""
        for kind in ("leave", "suspend"):
            asked = self.asked.get(_About(attempt.seat(0), kind))
            if asked is not None and not asked.is_seen:
                return ACTIONS[type(asked.decision)]
        return ""

    def refusal(self, target: JobId | AttemptId) -> str:
        """Return what its home said of the last decision that it refused; empty: nothing."""
        for kind in _KINDS.values() if self._refused else ():
            refused = self._refused.get(_About(target, kind))
            if refused is not None:
                return refused.words
        return ""

    # --- decisions -------------------------------------------------------------------------------

    @property
    def next_s(self) -> float | None:
        """Return when a decision may be sent again; None: none was sent."""
        return next((asked.until_s for asked in self.asked.values()), None)

    def lapse(self, now_s: float) -> None:
        """Forget what was asked long ago."""
        while self.asked and next(iter(self.asked.values())).until_s <= now_s:
            _, asked = self.asked.popitem(last=False)
            del self._abouts[asked.number]
        while self._refused and next(iter(self._refused.values())).until_s <= now_s:
            self._refused.popitem(last=False)

    def propose(
        self, decision: JobDecision, policy: str, term: float, now: Instant
    ) -> Propose | Mistake | None:
        """Return the message to the home, or what is wrong; None: it was sent a moment ago."""
        action = ACTIONS[type(decision)]
        wrong = self._wrong(decision, action)
        if wrong is not None:
            return wrong
        target = _target_of(decision)
        if not isinstance(decision, OfJob):
            decision = type(decision)(decision.attempt.seat(0))  # of each seat it is the same
        attempt = target if isinstance(target, AttemptId) else None
        about, now_s = _About(target, _KINDS[action]), now.steady_s
        refused = self._refused.get(about)
        if refused is not None and _are_equal(refused.decision, decision):
            return None
        known = self.asked.get(about)
        if known is not None and now_s < known.until_s and _are_equal(known.decision, decision):
            return None
        sent, since_s = 0, now_s
        if known is not None and now_s < known.since_s + ASKED_S:
            sent, since_s = known.sent, known.since_s
        if sent >= CHANGES_MAX:
            return Mistake(
                f"{CHANGES_MAX} different decisions about {target} within {ASKED_S:.0f} s",
                "decide once, and look at the view again when its home has obeyed",
            )
        self._number = max(self._number + 1, int(now.wall_s * 1000.0))
        if known is not None:
            del self.asked[about], self._abouts[known.number]
        self._abouts[self._number] = about
        self.asked[about] = _Asked(decision, self._number, now_s + ASKED_S, sent + 1, since_s)
        job = _job_of(target)
        message = Propose(job, term, self._number, policy, action, attempt)
        if isinstance(decision, ModifyJob):
            return msgspec.structs.replace(message, changes=_changes(decision))
        is_operators = isinstance(decision, HoldJob) and decision.holder == "operator"
        return msgspec.structs.replace(message, is_operators=is_operators)

    def _wrong(self, decision: JobDecision, action: JobAction) -> Mistake | None:
        """Return what is wrong with a decision, whatever a policy put into it."""
        if isinstance(decision, OfJob):
            wrong = self._wrong_job(decision)
        else:
            wrong = self._wrong_attempt(decision)
        if wrong is not None:
            return wrong
        home = _job_of(_target_of(decision)).home
        if not self.may(action, home):
            return Mistake(
                f"{home} does not let a policy {action} its jobs",
                f"its operator may set policy_may = ['{action}'] under [jobs]; see view.may",
            )
        return _wrong_hold(decision) or self._wrong_values(decision)

    def _wrong_job(self, decision: OfJob) -> Mistake | None:
        job: object = decision.job
        if not isinstance(job, JobId):
            return Mistake(f"{job!r:.60} is no id of a job", "job.id of view.queue()")
        entry = self._state.queues.entries.get(job)
        if entry is not None and entry.want.reservation is not None:
            return Mistake(f"{job} waits for its reservation", "its user decides there")
        if entry is not None or job in self._held:
            return None
        is_running = isinstance(decision, EndJob) or (
            isinstance(decision, ModifyJob) and decision[2:] == (None, None, None)
        )
        if is_running and self._runs(job):
            return None
        names = [*map(str, [*self._state.queues.entries, *self._held][:NAMES_SHOWN])]
        nearest = f"the id of a job of view.queue() or view.held: {', '.join(names)}"
        return Mistake(f"no job {job} is waiting", nearest if names else "nothing waits")

    def _runs(self, job: JobId) -> bool:
        """Return whether a task of a job runs on some machine."""
        return any(
            isinstance(key, AttemptId) and (key.home, key.number) == job
            for view in self._state.machines.values()
            for key in view.calendar
        )

    def _wrong_attempt(self, decision: OfTask) -> Mistake | None:
        attempt: object = decision.attempt
        if not isinstance(attempt, AttemptId):
            return Mistake(f"{attempt!r:.60} is no attempt", "task.attempt of machine.tasks()")
        if self._state.usage.whose(attempt) is None:
            return Mistake(f"{attempt} does not run", "task.attempt of machine.tasks()")
        for view in self._state.machines.values():
            calendar = view.calendar
            if calendar.bookings and attempt in calendar and calendar.inside(attempt) is not None:
                what = f"{attempt} runs in reservation {calendar.inside(attempt)}"
                return Mistake(what, "its user decides there")
        return None

    def _wrong_values(self, decision: JobDecision) -> Mistake | None:
        """Return what is wrong with new values, as far as the broker knows."""
        if not isinstance(decision, ModifyJob):
            return None
        comment: object = decision.comment
        if comment is not None and not (
            isinstance(comment, str) and len(comment) <= COMMENT_CHARACTERS_MAX
        ):
            return Mistake(
                f"{comment!r:.40} is no comment", f"at most {COMMENT_CHARACTERS_MAX} characters"
            )
        queue: object = decision.queue
        if queue is not None:
            is_number = isinstance(queue, int) and 0 <= queue <= QUEUE_MAX
            section = None
            if isinstance(queue, int) and is_number:
                section = self._state.settings.configuration.queue(queue)
            if section is None or section.state == "disabled":
                return Mistake(f"queue {queue!r:.40} takes no jobs", "QueueState.number")
        if decision.urgency is not None and not _is_within(decision.urgency, 1.0, URGENCY_MAX):
            what = f"{decision.urgency!r:.40} is no urgency"
            return Mistake(what, f"a number from 1 to {URGENCY_MAX:g}")
        if decision.time_limit_s is not None and not _is_within(
            decision.time_limit_s, LIMIT_MIN_S, LIMIT_MAX
        ):
            what = f"{decision.time_limit_s!r:.40} is no time limit"
            return Mistake(what, f"seconds, at least {LIMIT_MIN_S:g}")
        return None


def _are_equal(one: JobDecision, other: JobDecision) -> bool:
    return type(one) is type(other) and one == other


def _wrong_hold(decision: JobDecision) -> Mistake | None:
    if isinstance(decision, HoldJob) and decision.holder not in ("user", "operator"):
        return Mistake(f"{decision.holder!r:.40} holds nothing", "'user' or 'operator'")
    return None


def _is_within(value: object, least: float, most: float) -> bool:
    """Return whether it is a number between these: a policy may give anything."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, int | float) and is_number and least <= value <= most


def _target_of(decision: JobDecision) -> JobId | AttemptId:
    """Return the job or attempt that a decision is about."""
    return decision.job if isinstance(decision, OfJob) else decision.attempt.seat(0)


def _job_of(target: JobId | AttemptId) -> JobId:
    return target if isinstance(target, JobId) else JobId(target.home, target.number)


def _changes(decision: ModifyJob) -> ProposedValues:
    given = decision._asdict().items()
    values = {name: value for name, value in given if name != "job" and value is not None}
    return ProposedValues(**values)
