"""Attempts in progress, as nodes report them: accepted, started, refused, ended, silent."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from iriai.home.completion import Completion, EventLog
from iriai.home.explain import waits_for_place
from iriai.home.job import ActiveTask, JobState
from iriai.home.leases import Leases, MachineStats, lease_of, lost_result
from iriai.home.request_publisher import RequestPublisher
from iriai.model.ids import AttemptId
from iriai.model.instant import Instant
from iriai.model.reason import Reason
from iriai.model.records import Attempted, Ended, Started
from iriai.model.state import EndCause, TaskState
from iriai.protocol.messages.effects import Effect, LinkUp, Part, Persist, Send
from iriai.protocol.messages.scheduling import (
    Accepted,
    Acknowledge,
    Begun,
    Capability,
    End,
    Match,
    Refusal,
    Renew,
    Renewed,
    Run,
    Stop,
    ToNode,
)
from iriai.protocol.misbehaviour import Incidents


class NodeSessions:
    """Messages from a home to nodes, on any machine, and the answers that it awaits.

    Any of them may be lost with a link: the home asks again for each attempt whose end it does not
    know when its machine can be reached, and gives it up when its lease has expired (docs/spec/002,
    sections 2, 3).
    """

    def __init__(self, home: str, jobs: Mapping[int, JobState], effects: list[Effect]) -> None:
        self._home = home
        self._jobs = jobs
        self._effects = effects
        self.leases = Leases()

    # --- attempts --------------------------------------------------------------------------------

    def run(
        self,
        attempt: AttemptId,
        job: JobState,
        machine: str,
        capability: Capability,
        now_s: float,
    ) -> None:
        """Send the run of an attempt whose task was bound to a match."""
        if machine != self._home:
            self.leases.begin(machine, attempt, job.spec, now_s)
        self._run(attempt, job, machine, capability)

    def stop(self, job: JobState, indices: frozenset[int]) -> None:
        """Stop running tasks that were cancelled: `indices`, or all if it is empty."""
        for index, task in job.tasks.items():
            if not indices or index in indices:
                self._stop_if_cancelled(self._attempt(job, index, task), job)

    def ended(self, attempt: AttemptId, machine: str) -> None:
        """End the lease of the current attempt of a task, if it has one."""
        if machine != self._home:
            self.leases.end(machine, attempt)

    def acknowledge(self, attempt: AttemptId, machine: str) -> None:
        """Acknowledge a reported end; the end is stored before this leaves."""
        self._send(machine, Acknowledge(attempt))

    def current(self, attempt: AttemptId) -> JobState | None:
        """Return the job if this attempt of its task holds a claim, else None."""
        job = self._jobs.get(attempt.number)
        if job is None or attempt.home != self._home:
            return None
        task = job.tasks.get(attempt.index)
        if task is None or task.attempt != attempt.attempt or task.state is TaskState.QUEUED:
            return None
        return job

    def reported(self, attempt: AttemptId, machine: str, job: JobState | None) -> None:
        """Stop an attempt that a node reports if it was cancelled, or is over: it has no `job`."""
        if job is not None:
            self._stop_if_cancelled(attempt, job)
        elif attempt.home == self._home:
            self._send(machine, Stop(attempt, EndCause.LOST, 0.0))

    # --- other machines --------------------------------------------------------------------------

    def rejoin(self, now_s: float) -> None:
        """After a restart: ask again for every attempt whose end is not known.

        Other machines are asked when they can be reached; until then their leases go on, from now.
        """
        for job in self._jobs.values():
            for index, task in job.tasks.items():
                if task.state is TaskState.QUEUED:
                    continue
                attempt = self._attempt(job, index, task)
                if task.machine == self._home:
                    self._ask_again(attempt, job, task)
                else:
                    self.leases.begin(task.machine, attempt, job.spec, now_s)

    def reached(self, machine: str) -> None:
        """Send again what a machine that can be reached again may not have received."""
        for attempt in self.leases.of(machine):
            job = self._jobs[attempt.number]
            self._ask_again(attempt, job, job.tasks[attempt.index])

    def renew(self, renew: Renew, now_s: float) -> None:
        """Renew the leases of a machine that asked; they count from now."""
        machine = renew.machine
        self.leases.answer(machine, now_s)
        confirmed = []
        for attempt in renew.unconfirmed:
            job = self.current(attempt)
            self.reported(attempt, machine, job)
            if job is not None:
                confirmed.append(attempt)
        self._send(machine, Renewed(self._home, renew.asked_steady_s, tuple(confirmed)))

    def check(self) -> None:
        """Raise if leases and attempts on other machines do not agree."""
        away = {
            self._attempt(job, index, task): task.machine
            for job in self._jobs.values()
            for index, task in job.tasks.items()
            if task.state is not TaskState.QUEUED and task.machine != self._home
        }
        leased = {
            attempt: machine
            for machine, attempts in self.leases.machines().items()
            for attempt in attempts
        }
        assert leased == away, f"leases of {leased}, attempts {away}"

    # --- messages --------------------------------------------------------------------------------

    def _ask_again(self, attempt: AttemptId, job: JobState, task: ActiveTask) -> None:
        self._run(attempt, job, task.machine, None)
        self._stop_if_cancelled(attempt, job)

    def _run(
        self, attempt: AttemptId, job: JobState, machine: str, capability: Capability | None
    ) -> None:
        # An attempt on the home's own machine shares its fate, and needs no lease.
        lease_s = None if machine == self._home else lease_of(job.spec)
        self._send(machine, Run(attempt, job.spec_of(attempt.index), capability, lease_s))

    def _stop_if_cancelled(self, attempt: AttemptId, job: JobState) -> None:
        task = job.tasks[attempt.index]
        if task.stopping:
            self._send(task.machine, Stop(attempt, EndCause.CANCELLED, job.spec.kill_grace_s))

    def _attempt(self, job: JobState, index: int, task: ActiveTask) -> AttemptId:
        return AttemptId(self._home, job.number, index, task.attempt)

    def _send(self, machine: str, message: ToNode) -> None:
        self._effects.append(Send(machine, Part.NODE, message))


class Attempts:
    """The attempts in progress, from the match to the end."""

    def __init__(
        self,
        home: str,
        jobs: dict[int, JobState],
        requests: RequestPublisher,
        log: EventLog,
        completion: Completion,
        effects: list[Effect],
    ) -> None:
        self._home = home
        self._requests = requests
        self._log = log
        self._completion = completion
        self._effects = effects
        self._jobs = jobs
        self.nodes = NodeSessions(home, jobs, effects)
        self.stats = MachineStats()
        """Statistics of what machines do, beside what they report."""
        self.incidents = Incidents()
        self._ahead: dict[AttemptId, str] = {}
        """The machine of each attempt whose claim was granted ahead, as reported last."""
        self._begun_wall_s: dict[AttemptId, float] = {}
        """The start of each running attempt; after a restart their nodes report it again."""

    def started_wall_s(self, attempt: AttemptId) -> float | None:
        """Return when the process of a running attempt began; None: it is not known to run."""
        return self._begun_wall_s.get(attempt)

    def explain_ahead(self, attempt: AttemptId) -> Reason | None:
        """Return why an attempt with a claim has not started: its claim was granted ahead."""
        return waits_for_place(self._ahead[attempt]) if attempt in self._ahead else None

    def begin(self, job: JobState, match: Match, now: Instant) -> None:
        """Start the first waiting task of a job on the machine of the match."""
        index, machine = job.first_waiting(), match.machine
        attempt = AttemptId(self._home, job.number, index, job.next_attempt(index))
        self._requests.bound(attempt, machine, match.capability, is_own=not match.broker)
        job.attempted(index, attempt.attempt, machine)
        self._log.add(job.number, Attempted(((index, attempt.attempt),), machine))
        self.nodes.run(attempt, job, machine, match.capability, now.steady_s)

    def is_bound(self, match: Match) -> bool:
        """Return whether a match came before, and its claim is still in progress."""
        if match.machine == self._home:  # within a machine no message comes twice
            return False
        bound = self._requests.bound_to(match.machine, match.capability)
        return bound is not None and self.nodes.current(bound) is not None

    # --- reports of nodes ------------------------------------------------------------------------

    def accepted(self, accepted: Accepted, _now: Instant) -> None:
        """Handle a granted claim; the start of the process is reported by `Begun`."""
        job = self.nodes.current(accepted.attempt)
        if not self._may_report(accepted.machine, accepted.attempt, job):
            return
        self.nodes.reported(accepted.attempt, accepted.machine, job)
        if job is not None and accepted.is_ahead:
            self._ahead[accepted.attempt] = accepted.machine
        else:  # it does not wait for a place, or no longer
            self._ahead.pop(accepted.attempt, None)

    def refused(self, refusal: Refusal, _now: Instant) -> None:
        """Queue the task again: the node refused its claim."""
        job = self.nodes.current(refusal.attempt)
        if job is not None and self._may_report(refusal.reason.machine, refusal.attempt, job):
            self.stats.refused(refusal.reason)
            refused = (EndCause.REFUSED, None, None)
            self._end(job, refusal.attempt, *refused, refusal=refusal.reason)

    def begun(self, begun: Begun, _now: Instant) -> None:
        """Note that the process of an attempt started."""
        job = self.nodes.current(begun.attempt)
        if not self._may_report(begun.machine, begun.attempt, job):
            return
        self.nodes.reported(begun.attempt, begun.machine, job)
        if job is None:
            return
        self._ahead.pop(begun.attempt, None)
        self._begun_wall_s[begun.attempt] = begun.started_wall_s
        _, number, index, attempt = begun.attempt
        if job.tasks[index].state is TaskState.CLAIMED:
            self.stats.begun += 1
            job.started(index, attempt)
            self._log.add(number, Started(((index, attempt),)))

    def ended(self, end: End, _now: Instant) -> None:
        """Handle the end of an attempt and its result."""
        result = end.result
        attempt = result.attempt
        job = self.nodes.current(attempt)
        if not self._may_report(result.machine, attempt, job):
            return
        self.nodes.acknowledge(attempt, result.machine)
        if job is None:  # repeated, or of a replaced attempt: the first result stands
            return
        if result.elapsed_s > 0.0 and job.tasks[attempt.index].state is TaskState.CLAIMED:
            self.stats.begun += 1  # the end of a short task tells its start
        self._effects.append(Persist(result))
        self.stats.ended(result, job.spec)
        self._end(job, attempt, result.cause, result.exit_code, result.signal)

    def renew(self, renew: Renew, now: Instant) -> None:
        """Renew the leases of the attempts that a node has from this home."""
        current = self.nodes.current
        own = tuple(a for a in renew.unconfirmed if self._may_report(renew.machine, a, current(a)))
        self.nodes.renew(replace(renew, unconfirmed=own), now.steady_s)

    def link_up(self, event: LinkUp, _now: Instant) -> None:
        """Resume the exchange with a machine that can be reached again."""
        self.nodes.reached(event.machine)

    def give_up_unheard(self, now: Instant) -> None:
        """End, as lost, the attempts whose lease expired without contact."""
        for machine, attempt in self.nodes.leases.over(now.steady_s):
            job = self._jobs[attempt.number]
            self._effects.append(Persist(lost_result(attempt, machine, job.spec, now.wall_s)))
            self._end(job, attempt, EndCause.LOST, None, None)

    def _may_report(self, machine: str, attempt: AttemptId, job: JobState | None) -> bool:
        """Return whether the machine may report on the attempt: it has it, or that is over.

        `job` is the attempt's if that is current.
        """
        if job is None or job.tasks[attempt.index].machine == machine:
            return True
        given = job.tasks[attempt.index].machine
        self.incidents.note("not-its-own", machine, f"it spoke of {attempt}, which {given} has")
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
        self._log.add(job.number, Ended((end,), (refusal,) if refusal else ()))
        if index in job.tasks or (job.spec.throttle is not None and job.waiting):
            self._requests.changed(job.number)
        if final is not None:
            self._completion.task_ended(job, index, final)
        self._completion.finish_if_over(job)
