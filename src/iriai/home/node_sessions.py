"""What a home says to nodes, on its own machine and on others, and what it waits for from them.

Any of it may be lost with a link: each attempt whose end is not known is asked for again when its
machine can be reached, and given up when its lease is over (docs/spec/002, sections 2 and 3).
"""

from __future__ import annotations

from collections.abc import Mapping

from iriai.home.job import ActiveTask, JobState
from iriai.home.leases import Leases, lease_of
from iriai.model.ids import AttemptId
from iriai.model.state import EndCause, TaskState
from iriai.protocol.messages.effects import Part, Send
from iriai.protocol.messages.scheduling import (
    Acknowledge,
    Capability,
    Renew,
    Renewed,
    Run,
    Stop,
    ToNode,
)


class NodeSessions:
    """The attempts of one home that hold, or are to hold, a claim somewhere."""

    def __init__(self, home: str, jobs: Mapping[int, JobState]) -> None:
        self._home = home
        self._jobs = jobs
        self.leases = Leases()
        self._said: list[Send] = []

    def take(self) -> list[Send]:
        """What was said since the last call, in order."""
        said, self._said = self._said, []
        return said

    # --- attempts --------------------------------------------------------------------------------

    def run(
        self,
        attempt: AttemptId,
        job: JobState,
        machine: str,
        capability: Capability,
        now_s: float,
    ) -> None:
        """A match was bound: the attempt is to run."""
        if machine != self._home:
            self.leases.begin(machine, attempt, job.spec, now_s)
        self._run(attempt, job, machine, capability)

    def stop(self, job: JobState, indices: frozenset[int]) -> None:
        """Tasks that run were cancelled: these, or all where none is named."""
        for index, task in job.tasks.items():
            if not indices or index in indices:
                self._stop_if_cancelled(self._attempt(job, index, task), job)

    def ended(self, attempt: AttemptId, machine: str) -> None:
        """The end of an attempt is known; it is still that of its task."""
        self.leases.end(machine, attempt)

    def acknowledge(self, attempt: AttemptId, machine: str) -> None:
        """An end was told; it is stored before this leaves."""
        self._say(machine, Acknowledge(attempt))

    def current(self, attempt: AttemptId) -> JobState | None:
        """The job, where this is the attempt of its task that holds a claim."""
        job = self._jobs.get(attempt.number)
        if job is None or attempt.home != self._home:
            return None
        task = job.tasks.get(attempt.index)
        if task is None or task.attempt != attempt.attempt or task.state is TaskState.QUEUED:
            return None
        return job

    def heard(self, attempt: AttemptId, machine: str) -> JobState | None:
        """A node says that it has an attempt; None: it is over here, and is to end there."""
        job = self.current(attempt)
        if job is not None:
            self._stop_if_cancelled(attempt, job)
        elif attempt.home == self._home:
            self._say(machine, Stop(attempt, EndCause.LOST, 0.0))
        return job

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
        """A machine can be reached again: what was said to it may be lost."""
        for attempt in self.leases.of(machine):
            job = self._jobs[attempt.number]
            self._ask_again(attempt, job, job.tasks[attempt.index])

    def renew(self, renew: Renew, now_s: float) -> None:
        """A machine asks: its leases count from now."""
        machine = renew.machine
        self.leases.answer(machine, now_s)
        confirmed = tuple(a for a in renew.unconfirmed if self.heard(a, machine) is not None)
        self._say(machine, Renewed(self._home, renew.asked_steady_s, confirmed))

    def check(self) -> None:
        """Raise where leases and attempts on other machines are not the same."""
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
        self._say(machine, Run(attempt, job.spec_of(attempt.index), capability, lease_s))

    def _stop_if_cancelled(self, attempt: AttemptId, job: JobState) -> None:
        task = job.tasks[attempt.index]
        if task.stopping:
            self._say(task.machine, Stop(attempt, EndCause.CANCELLED, job.spec.kill_grace_s))

    def _attempt(self, job: JobState, index: int, task: ActiveTask) -> AttemptId:
        return AttemptId(self._home, job.number, index, task.attempt)

    def _say(self, machine: str, message: ToNode) -> None:
        self._said.append(Send(machine, Part.NODE, message))
