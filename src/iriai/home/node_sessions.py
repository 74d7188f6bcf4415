"""Messages from a home to nodes, on any machine, and the answers that it awaits."""

from __future__ import annotations

from collections.abc import Mapping

from iriai.home.active_task import ActiveTask
from iriai.home.job import JobState
from iriai.home.leases import Leases, lease_of
from iriai.model.claim import Phase
from iriai.model.ids import AttemptId
from iriai.model.state import EndCause, TaskState
from iriai.protocol.messages.effects import Effect, Part, Send
from iriai.protocol.messages.scheduling import (
    Acknowledge,
    Capability,
    Renew,
    Renewed,
    Run,
    SeatOffers,
    Stop,
    ToNode,
)
from iriai.protocol.messages.suspension import Suspend


class NodeSessions:
    """Messages from a home to nodes about seats of attempts; an attempt with one rank has one.

    Any of them may be lost with a link: the home asks again for each seat whose end it does not
    know when its machine can be reached, and gives it up when its lease has expired (docs/spec/002,
    sections 2, 3). Until an attempt with several seats is decided its machines only hold them, and
    free them by themselves (docs/spec/011, section 5).
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
        """Send the run of an attempt with one rank, whose task was bound to a match."""
        if machine != self._home:
            self.leases.begin(machine, attempt, job.spec, now_s)
        self._run(attempt, job, machine, capability)

    def run_seats(
        self, attempt: AttemptId, job: JobState, offers: SeatOffers, now_s: float
    ) -> None:
        """Send the runs of an attempt with several ranks, whose task was bound to a match.

        In the order of the machines' names: so two homes that want the same machines do not each
        hold a half.
        """
        parallel = job.tasks[attempt.index].parallel
        assert parallel is not None
        if parallel.is_decided:
            self._begin_leases(attempt, job, job.tasks[attempt.index], now_s)
        capabilities = {offer.machine: offer.capability for offer in offers}
        for rank, place in sorted(parallel.seats(), key=lambda seat: seat[1].machine):
            machine = place.machine
            self._run(attempt.seat(rank), job, machine, capabilities[machine])

    def decided(self, attempt: AttemptId, job: JobState, now_s: float) -> None:
        """Send that an attempt starts, now that all its machines hold their seats."""
        task = job.tasks[attempt.index]
        self._begin_leases(attempt, job, task, now_s)
        self.run_again(attempt, job)

    def run_again(self, attempt: AttemptId, job: JobState) -> None:
        """Send each seat of an attempt how far it may go now."""
        for rank, machine in job.tasks[attempt.index].seats():
            self._run(attempt.seat(rank), job, machine, None)

    def run_one_again(self, attempt: AttemptId, job: JobState) -> None:
        """Send one seat how far it may go now."""
        self._run(attempt, job, job.tasks[attempt.index].machine_of(attempt.rank), None)

    def suspend(self, attempt: AttemptId, task: ActiveTask) -> None:
        """Send all seats of an attempt that are not over what their user wants."""
        for rank, machine in task.seats():
            self._suspend(attempt.seat(rank), task, machine)

    def stop(self, job: JobState, indices: frozenset[int]) -> None:
        """Stop running tasks that were cancelled: `indices`, or all if it is empty."""
        for index, task in job.tasks.items():
            if task.stopping and (not indices or index in indices):
                self.stop_seats(self._attempt(job, index, task), job)

    def stop_seats(self, attempt: AttemptId, job: JobState, grace_s: float | None = None) -> None:
        """Stop all seats of an attempt that are not over, within `grace_s`, or the job's time."""
        grace_s = job.spec.kill_grace_s if grace_s is None else grace_s
        task = job.tasks[attempt.index]
        for rank, machine in task.seats():
            self._send(machine, Stop(attempt.seat(rank), _cause_of_stop(task), grace_s))

    def ended(self, attempt: AttemptId, machine: str) -> None:
        """End the lease of a seat, if it has one."""
        if machine != self._home:
            self.leases.end(machine, attempt)

    def acknowledge(self, attempt: AttemptId, machine: str) -> None:
        """Acknowledge a reported end; the end is stored before this leaves."""
        self._send(machine, Acknowledge(attempt))

    def current(self, attempt: AttemptId) -> JobState | None:
        """Return the job if this seat of an attempt of its task may hold a claim, else None."""
        job = self._jobs.get(attempt.number)
        if job is None or attempt.home != self._home:
            return None
        task = job.tasks.get(attempt.index)
        if task is None or task.attempt != attempt.attempt or task.state is TaskState.QUEUED:
            return None
        if task.parallel is None:
            return None if attempt.rank else job
        return job if attempt.rank in task.parallel else None

    def is_current(self, attempt: AttemptId) -> bool:
        """Return whether any seat of an attempt of its task may hold a claim."""
        job = self._jobs.get(attempt.number)
        task = None if job is None else job.tasks.get(attempt.index)
        if task is None or task.attempt != attempt.attempt or attempt.home != self._home:
            return False
        return task.state is not TaskState.QUEUED

    def reported(self, attempt: AttemptId, machine: str, job: JobState | None) -> None:
        """Stop a seat that a node reports if it was cancelled, or is over: it has no `job`."""
        if job is not None:
            self._stop_if_ending(attempt, job)
        elif attempt.home == self._home:
            self._send(machine, Stop(attempt, EndCause.LOST, 0.0))

    # --- other machines --------------------------------------------------------------------------

    def rejoin(self, now_s: float) -> None:
        """After a restart: ask again for every seat whose end is not known.

        Other machines are asked when they can be reached; until then their leases go on, from now.
        """
        for job in self._jobs.values():
            for index, task in job.tasks.items():
                if task.state is TaskState.QUEUED:
                    continue
                attempt = self._attempt(job, index, task)
                self._begin_leases(attempt, job, task, now_s)
                for rank, machine in task.seats():
                    if machine == self._home:
                        self._ask_again(attempt.seat(rank), job)

    def reached(self, machine: str) -> None:
        """Send again what a machine that can be reached again may not have received."""
        for attempt in self.leases.of(machine):
            self._ask_again(attempt, self._jobs[attempt.number])

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
            self._attempt(job, index, task).seat(rank): machine
            for job in self._jobs.values()
            for index, task in job.tasks.items()
            if task.state is not TaskState.QUEUED and task.is_decided
            for rank, machine in task.seats()
            if machine != self._home
        }
        leased = {
            attempt: machine
            for machine, attempts in self.leases.machines().items()
            for attempt in attempts
        }
        assert leased == away, f"leases of {leased}, attempts {away}"

    # --- messages --------------------------------------------------------------------------------

    def _begin_leases(
        self, attempt: AttemptId, job: JobState, task: ActiveTask, now_s: float
    ) -> None:
        for rank, machine in task.seats():
            if machine != self._home:
                self.leases.begin(machine, attempt.seat(rank), job.spec, now_s)

    def _ask_again(self, attempt: AttemptId, job: JobState) -> None:
        self.run_one_again(attempt, job)
        self._stop_if_ending(attempt, job)

    def _run(
        self, attempt: AttemptId, job: JobState, machine: str, capability: Capability | None
    ) -> None:
        # An attempt on the home's own machine shares its fate, and needs no lease.
        lease_s = None if machine == self._home else lease_of(job.spec)
        spec, parallel = job.spec_of(attempt.index), job.tasks[attempt.index].parallel
        if parallel is None:
            run = Run(attempt, spec, capability, lease_s)
        else:
            phase, ranks = parallel.phase, parallel.place(attempt.rank).ranks
            places, port = parallel.places, parallel.port
            if phase is not Phase.STARTED or len(places) == 1:
                places, port = (), 0
            run = Run(attempt, spec, capability, lease_s, phase, ranks, seats=places, port=port)
        self._send(machine, run)
        task = job.tasks[attempt.index]
        if task.suspension is not None:
            self._suspend(attempt, task, machine)

    def _suspend(self, seat: AttemptId, task: ActiveTask, machine: str) -> None:
        """Send what the user of a seat wants, if that ever was something else than to run."""
        suspension = task.suspension
        if suspension is not None and suspension.change:
            self._send(machine, Suspend(seat, suspension.change, suspension.is_wanted))

    def _stop_if_ending(self, attempt: AttemptId, job: JobState) -> None:
        task = job.tasks[attempt.index]
        is_ending = task.parallel is not None and task.parallel.is_ending
        if task.stopping or task.is_leaving or is_ending:
            machine = task.machine_of(attempt.rank)
            self._send(machine, Stop(attempt, _cause_of_stop(task), job.spec.kill_grace_s))

    def _attempt(self, job: JobState, index: int, task: ActiveTask) -> AttemptId:
        return AttemptId(self._home, job.number, index, task.attempt)

    def _send(self, machine: str, message: ToNode) -> None:
        self._effects.append(Send(machine, Part.NODE, message))


def _cause_of_stop(task: ActiveTask) -> EndCause:
    """Return with which cause seats of a task are stopped; the first one stands."""
    if task.is_leaving and not task.stopping:
        return EndCause.EVICTED
    return EndCause.CANCELLED
