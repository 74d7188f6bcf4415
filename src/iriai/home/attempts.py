"""Attempts under way, as nodes tell of them: accepted, begun, refused, ended, not heard of."""

from __future__ import annotations

from msgspec.structs import replace

from iriai.home.completion import Completion
from iriai.home.event_log import EventLog
from iriai.home.explain import waits_for_place
from iriai.home.job import JobState
from iriai.home.leases import lost_result
from iriai.home.machine_stats import MachineStats
from iriai.home.node_sessions import NodeSessions
from iriai.home.request_publisher import RequestPublisher
from iriai.model.ids import AttemptId
from iriai.model.instant import Instant
from iriai.model.reason import Reason
from iriai.model.state import EndCause, TaskState
from iriai.protocol.effect_buffer import EffectBuffer
from iriai.protocol.incidents import Incidents
from iriai.protocol.messages.effects import LinkUp, Persist
from iriai.protocol.messages.scheduling import Accepted, Begun, End, Match, Refusal, Renew


class Attempts:
    """Lives as long as the home."""

    def __init__(
        self,
        home: str,
        jobs: dict[int, JobState],
        posts: RequestPublisher,
        recording: EventLog,
        aftermath: Completion,
        outbox: EffectBuffer,
    ) -> None:
        self._home = home
        self._posts = posts
        self._changes = recording.changes
        self._aftermath = aftermath
        self._outbox = outbox
        self._jobs = jobs
        self.nodes = NodeSessions(home, jobs)
        self.observed = MachineStats()
        """What machines do beside what they say."""
        self.notices = Incidents()
        self._ahead: dict[AttemptId, str] = {}
        """The machines at which attempts wait that were handed out ahead, as those last said."""
        self._begun_wall_s: dict[AttemptId, float] = {}
        """When the attempts that run began; after a restart their nodes say it again."""

    def started_wall_s(self, attempt: AttemptId) -> float | None:
        """When the process of an attempt that runs began; None: it did not, or is not heard of."""
        return self._begun_wall_s.get(attempt)

    def explain_ahead(self, attempt: AttemptId) -> Reason | None:
        """Why an attempt that has a claim has not started: it was handed out ahead."""
        return waits_for_place(self._ahead[attempt]) if attempt in self._ahead else None

    def begin(self, job: JobState, match: Match, now: Instant) -> None:
        """The first task of a job that waits is to run where it was matched."""
        index, machine = job.first_waiting(), match.machine
        attempt = AttemptId(self._home, job.number, index, job.next_attempt(index))
        self._posts.bound(attempt, machine, match.capability, is_own=not match.broker)
        job.attempted(index, attempt.attempt, machine)
        self._changes.attempted(job.number, index, attempt.attempt, machine)
        self.nodes.run(attempt, job, machine, match.capability, now.steady_s)

    def is_bound(self, match: Match) -> bool:
        """Whether a match came before, and what it led to is under way."""
        bound = self._posts.bound_to(match.machine, match.capability)
        return bound is not None and self.nodes.current(bound) is not None

    # --- what nodes say --------------------------------------------------------------------------

    def accepted(self, accepted: Accepted, _now: Instant) -> None:
        """The node has the claim; that the process runs is told by `Begun`."""
        if not self._may_tell(accepted.machine, accepted.attempt):
            return
        job = self.nodes.heard(accepted.attempt, accepted.machine)
        if job is not None and accepted.is_ahead:
            self._ahead[accepted.attempt] = accepted.machine
        else:  # it waits for no place, or not any more
            self._ahead.pop(accepted.attempt, None)

    def refused(self, refusal: Refusal, _now: Instant) -> None:
        """The node does not run it: the task waits again."""
        job = self.nodes.current(refusal.attempt)
        if job is not None and self._may_tell(refusal.reason.machine, refusal.attempt):
            self.observed.refused(refusal.reason)
            refused = (EndCause.REFUSED, None, None)
            self._end(job, refusal.attempt, *refused, refusal=refusal.reason)

    def begun(self, begun: Begun, _now: Instant) -> None:
        """The process runs."""
        if not self._may_tell(begun.machine, begun.attempt):
            return
        job = self.nodes.heard(begun.attempt, begun.machine)
        if job is None:
            return
        self._ahead.pop(begun.attempt, None)
        self._begun_wall_s[begun.attempt] = begun.started_wall_s
        _, number, index, attempt = begun.attempt
        if job.tasks[index].state is TaskState.CLAIMED:
            self.observed.begun += 1
            job.started(index, attempt)
            self._changes.started(number, index, attempt)

    def ended(self, end: End, _now: Instant) -> None:
        """It is over, and this is what it came to."""
        result = end.result
        if not self._may_tell(result.machine, end.attempt):
            return
        self.nodes.acknowledge(end.attempt, result.machine)
        job = self.nodes.current(end.attempt)
        if job is None:  # repeated, or of an attempt that was replaced: the first result stands
            return
        self._outbox.add(Persist(result))
        self.observed.ended(result, job.spec)
        self._end(job, end.attempt, result.cause, result.exit_code, result.signal)

    def renew(self, renew: Renew, now: Instant) -> None:
        """A node asks for the leases of what it has from here."""
        own = tuple(a for a in renew.unconfirmed if self._may_tell(renew.machine, a))
        self.nodes.renew(replace(renew, unconfirmed=own), now.steady_s)

    def link_up(self, event: LinkUp, _now: Instant) -> None:
        """A machine can be reached again."""
        self.nodes.reached(event.machine)

    def give_up_unheard(self, now: Instant) -> None:
        """Attempts that nothing was heard of for longer than their lease are over."""
        for machine, attempt in self.nodes.leases.over(now.steady_s):
            job = self._jobs[attempt.number]
            self._outbox.add(Persist(lost_result(attempt, machine, job.spec, now.wall_s)))
            self._end(job, attempt, EndCause.LOST, None, None)

    def _may_tell(self, machine: str, attempt: AttemptId) -> bool:
        """Whether news of an attempt come from where it is; of one that is over none count."""
        job = self.nodes.current(attempt)
        if job is None or job.tasks[attempt.index].machine == machine:
            return True
        given = job.tasks[attempt.index].machine
        self.notices.note("not-its-own", machine, f"it spoke of {attempt}, which {given} has")
        return False

    def _end(
        self,
        job: JobState,
        attempt: AttemptId,
        cause: EndCause,
        exit_code: int | None,
        signal: int | None,
        *,
        refusal: Reason | None = None,
    ) -> None:
        index = attempt.index
        self._ahead.pop(attempt, None)
        self._begun_wall_s.pop(attempt, None)
        self.nodes.ended(attempt, job.tasks[index].machine)
        final = job.ended(index, attempt.attempt, cause, exit_code, signal)
        end = (index, attempt.attempt, cause, exit_code, signal)
        self._changes.ended(job.number, end, refusal)
        if index in job.tasks or (job.spec.throttle is not None and job.waiting):
            self._posts.changed(job.number)
        if final is not None:
            self._aftermath.task_ended(job, index, final)
        self._aftermath.finish_if_over(job)
