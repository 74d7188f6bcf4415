"""How many jobs each user has that have not finished, and what they take."""

from __future__ import annotations

from collections.abc import Iterable

from iriai.daemon.clients import Asked
from iriai.home.job import JobState
from iriai.model.configuration_limits import LimitsSection
from iriai.policy.service.allowance import Allowance

JOB_BYTES = 1024
"""What a job takes beside its texts."""


class HeldJobs:
    """Of one home.

    A job counts with all that came with it. Environments are often shared, but whether others share
    one cannot be told any more once the job that brought it has finished.
    """

    def __init__(self, jobs: Iterable[JobState], limits: LimitsSection) -> None:
        """`jobs` are those that the daemon began with; of these the arguments alone count."""
        self.jobs = Allowance("jobs_per_user", "jobs that have not finished", limits.jobs_per_user)
        self.bytes = Allowance(
            "job_bytes_per_user",
            "bytes of jobs that have not finished",
            limits.job_bytes_per_user,
        )
        self._held: dict[int, tuple[str, int]] = {}
        for job in jobs:
            self.add(job.number, job.spec.user, sum(map(len, job.spec.command)))

    def check(self, asked: Asked) -> None:
        """Raise `Refused` where whoever asks may not hand in another job."""
        if not asked.caller.operator:
            user = asked.caller.person.name
            self.jobs.check(user)
            self.bytes.check(user, asked.size_bytes + JOB_BYTES)

    def add(self, number: int, user: str, size_bytes: int) -> None:
        """A job of `user` was accepted."""
        self._held[number] = user, size_bytes + JOB_BYTES
        self.jobs.take(user)
        self.bytes.take(user, size_bytes + JOB_BYTES)

    def settled(self, number: int) -> None:
        """A job has finished."""
        held = self._held.pop(number, None)
        if held is not None:
            self.jobs.give_back(held[0])
            self.bytes.give_back(*held)
